#include "trainer/weights/hf_checkpoint.h"

#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "tests/oracle_python.h"
#include "tests/trainer/weights/raw_file.h"
#include "trainer/weights/tensors.h"
#include "trainer/weights/weight_files.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;
using models::DecoderShape;
using models::ParameterSet;

ParameterSet empty_set(const DecoderShape& shape) {
  return ParameterSet(models::parameter_specs(shape), at::Device(at::kCPU));
}

void expect_pattern(const ParameterSet& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters.spec(i).name;
    const float* values = parameters.parameter(i).const_data_ptr<float>();
    for (int64_t k = 0; k < parameters.spec(i).numel(); ++k)
      ASSERT_EQ(values[k], pattern(name, k)) << name << " element " << k;
  }
}

ParameterSet patterned_set(const DecoderShape& shape) {
  ParameterSet parameters = empty_set(shape);
  for (size_t i = 0; i < parameters.size(); ++i) {
    float* values = parameters.parameter(i).mutable_data_ptr<float>();
    for (int64_t k = 0; k < parameters.spec(i).numel(); ++k)
      values[k] = static_cast<float>(pattern(parameters.spec(i).name, k));
  }
  return parameters;
}

class HfCheckpoint : public InFolder {
 protected:
  using Tensors = std::map<std::string, at::Tensor>;
  DecoderShape tied_ = DecoderShape::from_folder(golden("tied-bf16"));
  DecoderShape untied_ = DecoderShape::from_folder(golden("sharded-fp32"));

  Tensors golden_tensors() const { return read_tensors(golden("tied-bf16/model.safetensors")); }
  void put_tensors(const Tensors& tensors, const std::string& file = "model.safetensors") const {
    write_tensors(path(file), {tensors.begin(), tensors.end()});
  }
  void put_index(const std::map<std::string, std::string>& shards) const {
    put("model.safetensors.index.json",
        nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", shards}}.dump());
  }
  void expect_loads(const DecoderShape& shape) const {
    ParameterSet parameters = empty_set(shape);
    load(folder_.string(), shape, parameters);
    expect_pattern(parameters);
  }
  /// The message of the refusal; nothing may have been changed by then.
  std::string refusal(ErrorCode code, const DecoderShape& shape) const {
    ParameterSet parameters = empty_set(shape);
    parameters.flat().fill_(7);
    const std::string text = message(code, [&] { load(folder_.string(), shape, parameters); });
    EXPECT_TRUE(at::equal(parameters.flat(), at::full_like(parameters.flat(), 7)));
    return text;
  }
};

TEST_F(HfCheckpoint, LoadsWhatTransformersSaved) {
  ParameterSet tied = empty_set(tied_), untied = empty_set(untied_);
  load(golden("tied-bf16"), tied_, tied);
  expect_pattern(tied);
  load(golden("sharded-fp32"), untied_, untied);
  expect_pattern(untied);
}

TEST_F(HfCheckpoint, LoadsHalfPrecision) {
  Tensors tensors = golden_tensors();
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kHalf);
  put_tensors(tensors);
  expect_loads(tied_);
}

TEST_F(HfCheckpoint, LoadsABareDecoderWithoutThePrefix) {
  Tensors bare;
  for (const auto& [name, tensor] : golden_tensors())
    bare[name.substr(std::string("model.").size())] = tensor;
  put_tensors(bare);
  expect_loads(tied_);
}

TEST_F(HfCheckpoint, IgnoresRotaryBuffersAndARepeatedHead) {
  Tensors tensors = golden_tensors();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::full({2}, 1.0);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  put_tensors(tensors);
  expect_loads(tied_);
}

TEST_F(HfCheckpoint, RefusesAHeadThatDiffersFromTiedEmbeddings) {
  Tensors tensors = golden_tensors();
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1;
  put_tensors(tensors);
  EXPECT_HAS(refusal(ErrorCode::invalid_config, tied_),
             "tensor lm_head.weight differs from model.embed_tokens.weight, but config.json ties them");
}

TEST_F(HfCheckpoint, ListsEveryTensorThatDoesNotFit) {
  Tensors tensors = golden_tensors();
  tensors.erase("model.norm.weight");
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  tensors["model.layers.2.mlp.up_proj.weight"] = at::full({2}, 1.0);
  tensors["visual.weight"] = at::full({2}, 1.0);
  tensors["model.layers.0.self_attn.q_proj.weight"] = at::full({16, 15}, 1.0);
  tensors["model.layers.0.self_attn.q_proj.bias"] = at::full({16}, 1, at::kLong);
  put_tensors(tensors);
  const std::string text = refusal(ErrorCode::invalid_config, untied_);
  for (const char* line :
       {"tensor model.norm.weight is missing", "tensor model.layers.1.mlp.up_proj.weight is missing",
        "tensor lm_head.weight is missing; config.json says that the head is not tied",
        "tensor model.layers.2.mlp.up_proj.weight is left over", "tensor visual.weight is left over",
        "tensor model.layers.0.self_attn.q_proj.weight has shape [16, 15], config.json asks for [16, 16]",
        "tensor model.layers.0.self_attn.q_proj.bias is I64; weights must be BF16, F16 or F32"})
    EXPECT_HAS(text, line);
  EXPECT_EQ(std::ranges::count(text, '\n'), 7) << text;
}

TEST_F(HfCheckpoint, AFolderWithoutWeightsIsIo) {
  EXPECT_HAS(refusal(ErrorCode::io, tied_), "holds neither model.safetensors nor");
  put("pytorch_model.bin", "");
  EXPECT_HAS(refusal(ErrorCode::io, tied_), "pickle format");
  ParameterSet parameters = empty_set(tied_);
  EXPECT_HAS(message(ErrorCode::io, [&] { load(path("absent"), tied_, parameters); }),
             "there is no such folder");
}

TEST_F(HfCheckpoint, ADamagedFileIsCorrupt) {
  const std::string whole = files::read(golden("tied-bf16/model.safetensors"));
  put("model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_HAS(refusal(ErrorCode::corrupt_data, tied_), path("model.safetensors"));
}

TEST_F(HfCheckpoint, AnIndexMustFitItsShards) {
  Tensors first, second;
  std::map<std::string, std::string> shards;
  for (const auto& [name, tensor] : golden_tensors()) {
    auto& part = first.size() <= second.size() ? first : second;
    part[name] = tensor;
    shards[name] = &part == &first ? "a.safetensors" : "b.safetensors";
  }
  put_tensors(first, "a.safetensors");
  put_index(shards);
  EXPECT_HAS(refusal(ErrorCode::io, tied_), path("b.safetensors"));
  put_tensors(second, "b.safetensors");
  expect_loads(tied_);

  auto wrong = shards;
  wrong["model.norm.weight"] =
      shards["model.norm.weight"] == "a.safetensors" ? "b.safetensors" : "a.safetensors";
  put_index(wrong);
  EXPECT_HAS(refusal(ErrorCode::invalid_config, tied_),
             "tensor model.norm.weight is not in " + wrong["model.norm.weight"]);

  put_index(shards);
  second[first.begin()->first] = first.begin()->second;
  put_tensors(second, "b.safetensors");
  EXPECT_HAS(refusal(ErrorCode::invalid_config, tied_), "is also in");
}

TEST_F(HfCheckpoint, AnIndexThatMakesNoSenseIsCorrupt) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})"}) {
    put("model.safetensors.index.json", text);
    EXPECT_HAS(refusal(ErrorCode::corrupt_data, tied_), "model.safetensors.index.json") << text;
  }
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "", "..", "."}) {
    put_index({{"model.norm.weight", shard}});
    EXPECT_HAS(refusal(ErrorCode::corrupt_data, tied_), "is not the name of a file in this folder");
  }
}

TEST_F(HfCheckpoint, SavedWeightsAreLoadedBackToTheBit) {
  for (const DecoderShape& shape : {tied_, untied_}) {
    ParameterSet parameters = empty_set(shape), read = empty_set(shape);
    parameters.initialize(5, shape);
    save(path("fp32"), shape, parameters, at::kFloat);
    load(path("fp32"), shape, read);
    EXPECT_TRUE(at::equal(parameters.flat(), read.flat()));

    save(path("bf16"), shape, parameters, at::kBFloat16);
    load(path("bf16"), shape, read);
    EXPECT_TRUE(at::equal(parameters.flat().to(at::kBFloat16), read.flat().to(at::kBFloat16)));
    EXPECT_FALSE(at::equal(parameters.flat(), read.flat()));
    EXPECT_EQ(DecoderShape::from_folder(path("bf16")).to_json(""), shape.to_json(""));
  }
}

TEST_F(HfCheckpoint, Bf16IsRoundedToNearestEven) {
  ParameterSet parameters = empty_set(tied_), read = empty_set(tied_);
  float* values = parameters.flat().mutable_data_ptr<float>();
  values[0] = 1.00390625f;  // half way between 1 and 1.0078125
  values[1] = 1.01171875f;  // half way between 1.0078125 and 1.015625
  values[2] = 1.00390637f;
  values[3] = -INFINITY;
  save(folder_.string(), tied_, parameters, at::kBFloat16);
  load(folder_.string(), tied_, read);
  const float* rounded = read.flat().const_data_ptr<float>();
  EXPECT_EQ(rounded[0], 1.0f);
  EXPECT_EQ(rounded[1], 1.015625f);
  EXPECT_EQ(rounded[2], 1.0078125f);
  EXPECT_EQ(rounded[3], -INFINITY);
}

TEST_F(HfCheckpoint, AModelOfOursSaysWhatTheTokenizerNeeds) {
  DecoderShape ours = tied_;
  ours.config_text.clear();
  const ParameterSet parameters = patterned_set(ours);
  const auto json = [&](const char* name) { return nlohmann::json::parse(files::read(path(name))); };
  put("generation_config.json", "{\"mine\": 1}");
  save(folder_.string(), ours, parameters, at::kBFloat16);
  EXPECT_EQ(json("generation_config.json"), (nlohmann::json{{"mine", 1}}));
  EXPECT_FALSE(json("config.json").contains("eos_token_id"));
  EXPECT_EQ(json("config.json")["torch_dtype"], "bfloat16");

  save(folder_.string(), ours, parameters, at::kFloat, {.special = {.eos = {3}, .pad = 0}});
  EXPECT_EQ(json("generation_config.json")["eos_token_id"], 3);
  EXPECT_EQ(json("config.json")["eos_token_id"], 3);
  EXPECT_EQ(json("config.json")["pad_token_id"], 0);
  save(folder_.string(), ours, parameters, at::kFloat, {.special = {.eos = {3, 4}, .bos = 1}});
  EXPECT_EQ(json("generation_config.json")["eos_token_id"], (nlohmann::json{3, 4}));
  EXPECT_EQ(json("generation_config.json")["bos_token_id"], 1);
  EXPECT_EQ(count(), 3u);
}

TEST_F(HfCheckpoint, AModelOfAUserKeepsItsConfigurations) {
  const auto json = [](const std::string& path) { return nlohmann::ordered_json::parse(files::read(path)); };
  const std::string generation = "{\"temperature\": 0.7, \"eos_token_id\": [5, 6]}\n";
  save(folder_.string(), tied_, patterned_set(tied_), at::kFloat,
       {.generation_config = generation, .special = {.eos = {3}}});
  EXPECT_EQ(files::read(path("generation_config.json")), generation);
  auto expected = json(golden("tied-bf16/config.json"));
  expected["dtype"] = "float32";
  EXPECT_EQ(json(path("config.json")).dump(), expected.dump());  // every field, in its order
}

TEST_F(HfCheckpoint, ALargeModelIsSavedInShards) {
  const ParameterSet parameters = patterned_set(untied_);
  int64_t largest = 0;
  for (size_t i = 0; i < parameters.size(); ++i) largest = std::max(largest, parameters.spec(i).numel() * 2);
  for (const int64_t limit : {int64_t{1}, largest, 2 * largest}) {
    const std::string folder = path(std::to_string(limit));
    save(folder, untied_, parameters, at::kBFloat16, {.max_shard_bytes = limit});
    const auto index = nlohmann::json::parse(files::read(folder + "/model.safetensors.index.json"));
    EXPECT_EQ(index["metadata"]["total_size"], untied_.num_parameters() * 2);
    ASSERT_EQ(index["weight_map"].size(), parameters.size());
    std::map<std::string, std::vector<std::string>> tensors;
    for (const auto& [name, shard] : index["weight_map"].items())
      tensors[shard.get<std::string>()].push_back(name);
    EXPECT_EQ(tensors.size(), limit == 1 ? parameters.size() : tensors.size());
    EXPECT_GT(tensors.size(), 1u);
    EXPECT_FALSE(fs::exists(folder + "/model.safetensors"));
    for (const auto& [shard, names] : tensors) {
      const SafetensorsReader file(folder + "/" + shard);
      EXPECT_EQ(file.tensors().size(), names.size());
      EXPECT_TRUE(names.size() == 1 || static_cast<int64_t>(file.tensors().back().end) <= limit);
    }
    ParameterSet read = empty_set(untied_);
    load(folder, untied_, read);
    expect_pattern(read);
  }
}

TEST_F(HfCheckpoint, LoadsIntoBf16AndSavesTheSameBytes) {
  ParameterSet parameters(models::parameter_specs(tied_), at::kCPU, at::kBFloat16);
  load(golden("tied-bf16"), tied_, parameters);
  save(folder_.string(), tied_, parameters, at::kBFloat16);
  const SafetensorsReader before(golden("tied-bf16/model.safetensors")), after(path("model.safetensors"));
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (const TensorInfo& tensor : before.tensors()) {
    ASSERT_NE(after.find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(text_of(before, tensor), text_of(after, *after.find(tensor.name))) << tensor.name;
  }
}

TEST_F(HfCheckpoint, HalfPrecisionKeepsItsBits) {
  Tensors tensors = golden_tensors();
  for (auto& [name, tensor] : tensors) tensor = at::rand(tensor.sizes()).to(at::kHalf);
  put_tensors(tensors);
  ParameterSet parameters = empty_set(tied_);
  load(folder_.string(), tied_, parameters);
  save(path("again"), tied_, parameters, at::kHalf);
  for (const auto& [name, tensor] : read_tensors(path("again/model.safetensors")))
    EXPECT_TRUE(at::equal(tensor, tensors.at(name))) << name;
}

TEST_F(HfCheckpoint, AFileOfMastersIsLoadedByItself) {
  const ParameterSet parameters = patterned_set(tied_);
  save_file(path("masters.safetensors"), tied_, parameters, at::kFloat);
  ParameterSet read = empty_set(tied_);
  load(path("masters.safetensors"), tied_, read);
  EXPECT_TRUE(at::equal(read.flat(), parameters.flat()));
}

TEST_F(HfCheckpoint, AFolderThatCannotBeMadeIsIo) {
  put("file", "");
  message(ErrorCode::io, [&] { save(path("file/x"), tied_, empty_set(tied_), at::kFloat); });
}

TEST_F(HfCheckpoint, NamedTensorsKeepTypesShapesAndBits) {
  const at::Tensor random = at::rand({5, 6});
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {{"exp_avg", random},
                                                                   {"transposed", random.t()},
                                                                   {"scalar", at::full({}, 12, at::kLong)},
                                                                   {"empty", at::empty({0, 3})},
                                                                   {"bf16", random.to(at::kBFloat16)},
                                                                   {"double", random.to(at::kDouble)},
                                                                   {"bool", random > 0.5}};
  write_tensors(path("x"), tensors);
  const auto read = read_tensors(path("x"));
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read.at(name), tensor)) << name;
  }
}

TEST_F(HfCheckpoint, EveryTypeOfTheReferenceLibraryIsRead) {
  for (const auto& [name, tensor] : read_tensors(golden("types.safetensors"))) {
    const at::Tensor values = tensor.to(at::kDouble).contiguous();
    for (int64_t i = 0; i < values.numel(); ++i) {
      const auto steps = static_cast<double>(pattern_steps(name, i));
      const double expected = name == "BOOL"   ? std::fmod(steps, 2) == 0
                              : name == "U8"   ? steps + 125
                              : name[0] == 'I' ? steps
                                               : steps / 64;
      EXPECT_EQ(values.const_data_ptr<double>()[i], expected) << name << " element " << i;
    }
  }
}

// A checkpoint goes through load, save (in shards), transformers, and load again: equal bytes in every
// tensor, and nothing to warn of on the way.
TEST_F(HfCheckpoint, TransformersKeepsWhatWasSaved) {
  const auto python = oracle_python("transformers");
  if (!python) GTEST_SKIP() << "no Python with transformers";
  std::map<std::string, DecoderShape> shapes{{"tied-bf16", tied_}, {"sharded-fp32", untied_}};
  std::map<std::string, std::string> sources{{"tied-bf16", golden("tied-bf16")},
                                             {"sharded-fp32", golden("sharded-fp32")}};
  for (const char* family : {"qwen2-equal-heads-yarn", "qwen3-group7-tied", "llama-group7-llama3"}) {
    sources[family] = golden("../goldens-decoder/") + family;
    shapes[family] = DecoderShape::from_folder(sources[family]);
  }
  for (const auto& [name, shape] : shapes) {
    ParameterSet parameters = empty_set(shape);
    load(sources[name], shape, parameters);
    save(path(name), shape, parameters, name == "sharded-fp32" ? at::kFloat : at::kBFloat16,
         {.max_shard_bytes = shape.num_parameters(), .special = {.eos = {3, 4}}});
  }
  put("read.py", R"(
import sys, os, torch
from transformers import AutoModelForCausalLM
folder, *pairs = sys.argv[1:]
for name, source in zip(pairs[::2], pairs[1::2]):
    a, info = AutoModelForCausalLM.from_pretrained(f"{folder}/{name}", dtype="auto", output_loading_info=True)
    b = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
    assert not any(info.values()), info
    assert a.dtype == b.dtype == (torch.float32 if name == "sharded-fp32" else torch.bfloat16), (a.dtype, b.dtype)
    x, y = a.state_dict(), b.state_dict()
    assert x.keys() == y.keys() and all(torch.equal(x[k], y[k]) for k in x)
    ids = torch.arange(12)[None]
    assert torch.equal(a(ids).logits, b(ids).logits)
    assert a.generation_config.eos_token_id in (3, [3, 4]), a.generation_config
    a.save_pretrained(f"{folder}/{name}-again")
)");
  std::string command = *python + " " + path("read.py") + " " + folder_.string();
  for (const auto& [name, source] : sources) command += " " + name + " " + source;
  EXPECT_EQ(std::system((command + " >" + path("log") + " 2>&1").c_str()), 0) << files::read(path("log"));
  const std::string log = files::read(path("log"));
  for (const char* word : {"Warning", "warning", "deprecated", "not initialized", "UNEXPECTED", "MISSING"})
    EXPECT_EQ(log.find(word), std::string::npos) << log;
  for (const auto& [name, shape] : shapes) {
    const WeightFiles before(sources[name], shape), after(path(name) + "-again", shape);
    for (const auto& spec : models::parameter_specs(shape)) {
      const auto &x = before.place(spec.name), &y = after.place(spec.name);
      EXPECT_EQ(text_of(*x.file, *x.tensor), text_of(*y.file, *y.tensor)) << name << " " << spec.name;
    }
  }
}

}  // namespace
}  // namespace trireme::weights
