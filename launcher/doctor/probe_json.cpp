#include <nlohmann/json.hpp>

#include "launcher/doctor/probe.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using Json = nlohmann::json;

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Read>
auto read(const std::string& text, Read read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    fail(ErrorCode::corrupt_data, "the doctor and a host do not understand each other: {}", error.what());
  }
}

}  // namespace

std::string to_json(const ProbeRequest& request) {
  return line({{"trainer", request.trainer},
               {"read", request.read},
               {"folder", request.folder},
               {"token", request.token},
               {"write_bytes", request.write_bytes}});
}

ProbeRequest probe_request_from(const std::string& text) {
  return read(text, [](const Json& json) {
    return ProbeRequest{.trainer = json.at("trainer"),
                        .read = json.at("read"),
                        .folder = json.at("folder"),
                        .token = json.at("token"),
                        .write_bytes = json.at("write_bytes")};
  });
}

std::string to_json(const Probe& probe) {
  return line({{"versions", probe.versions},
               {"unreadable", probe.unreadable},
               {"closed", probe.closed},
               {"kernel", probe.kernel},
               {"gpus", probe.gpus},
               {"folder",
                {{"error", probe.folder.error},
                 {"sees_token", probe.folder.sees_token},
                 {"free_bytes", probe.folder.free_bytes},
                 {"write_seconds", probe.folder.write_seconds}}},
               {"shared_memory_bytes", probe.shared_memory_bytes},
               {"shared_memory_free", probe.shared_memory_free},
               {"clock_ns", probe.clock_ns}});
}

Probe probe_from(const std::string& text) {
  return read(text, [](const Json& json) {
    const Json& folder = json.at("folder");
    return Probe{.versions = json.at("versions"),
                 .unreadable = json.at("unreadable"),
                 .closed = json.at("closed"),
                 .kernel = json.at("kernel"),
                 .gpus = json.at("gpus"),
                 .folder = {.error = folder.at("error"),
                            .sees_token = folder.at("sees_token"),
                            .free_bytes = folder.at("free_bytes"),
                            .write_seconds = folder.at("write_seconds")},
                 .shared_memory_bytes = json.at("shared_memory_bytes"),
                 .shared_memory_free = json.at("shared_memory_free"),
                 .clock_ns = json.at("clock_ns")};
  });
}

}  // namespace trireme::doctor
