"""tools/check_arrows.py on small trees with one thing wrong in each."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_arrows  # noqa: E402


def mistakes_of(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_arrows.Tree(root).check()


class CheckArrows(unittest.TestCase):
    def test_allowed_includes_pass(self):
        self.assertEqual([], mistakes_of({
            "runtime/base/error.h": "#include <string>\n",
            "runtime/comm/communicator.h": '#include <mpi.h>\n#include "runtime/base/error.h"\n',
            "trainer/steps/online_step.cpp": '#include <ATen/core/Tensor.h>\n#include "runtime/comm/communicator.h"\n',
        }))

    def test_reversed_arrow_is_named_with_its_line(self):
        self.assertEqual(["runtime/base/log.h:2: runtime/base may not include runtime/comm"], mistakes_of({
            "runtime/base/log.h": '#pragma once\n#include "runtime/comm/communicator.h"\n',
            "runtime/comm/communicator.h": "",
        }))

    def test_siblings_do_not_include_each_other(self):
        self.assertEqual(["trainer/losses/a.cpp:1: trainer/losses may not include trainer/algorithms"], mistakes_of({
            "trainer/losses/a.cpp": '#include "trainer/algorithms/advantages.h"\n',
            "trainer/algorithms/advantages.h": "",
        }))

    def test_runtime_never_includes_the_trainer(self):
        self.assertEqual(1, len(mistakes_of({
            "runtime/session/session.cpp": '#include "trainer/models/decoder.h"\n',
            "trainer/models/decoder.h": "",
        })))

    def test_configuration_takes_only_the_config_headers_of_other_parts(self):
        found = mistakes_of({
            "trainer/config/run_config.h":
                '#include "trainer/models/model_config.h"\n#include "trainer/models/decoder.h"\n',
            "trainer/models/model_config.h": "",
            "trainer/models/decoder.h": "",
        })
        self.assertEqual(["trainer/config/run_config.h:2: trainer/config may not include trainer/models"], found)

    def test_torch_is_seen_through_other_headers(self):
        found = mistakes_of({
            "launcher/commands/run.cpp": '#include "trainer/config/run_config.h"\n',
            "trainer/config/run_config.h": '#include "trainer/models/model_config.h"\n',
            "trainer/models/model_config.h": "#include <ATen/core/Tensor.h>\n",
        })
        self.assertEqual(2, len(found))
        self.assertIn("launcher/commands is free of Torch", found[0])
        self.assertIn("through trainer/models/model_config.h", found[0])

    def test_launcher_is_free_of_mpi_and_cuda(self):
        self.assertEqual(2, len(mistakes_of({"launcher/process/guard.cpp": "#include <mpi.h>\n#include <cuda_runtime.h>\n"})))

    def test_includes_of_everything_are_refused(self):
        self.assertEqual(1, len(mistakes_of({"trainer/models/decoder.cpp": "#include <torch/torch.h>\n"})))

    def test_kernels_name_no_vendor_and_no_wave(self):
        found = mistakes_of({
            "trainer/models/rows.cuh": "__device__ int f() { return warpSize; }\nauto g = __shfl_xor(1, 2);\n// cudaMalloc\n",
            "trainer/models/rows_body.inc": "void h() { kernel<<<1, 2>>>(); }\n",
            "trainer/models/rows.cu": "int lanes = gpu::kTeam;\n",
        })
        self.assertEqual(3, len(found), found)
        self.assertIn("trainer/models/rows.cuh:2: __shfl_xor is one vendor's", found[1])

    def test_relative_and_missing_headers_are_refused(self):
        found = mistakes_of({"runtime/base/log.cpp": '#include "log.h"\n#include "runtime/base/lgo.h"\n'})
        self.assertIn("path from the root", found[0])
        self.assertIn("runtime/base/lgo.h does not exist", found[1])

    def test_a_library_may_not_link_against_the_arrows(self):
        found = mistakes_of({"runtime/base/CMakeLists.txt":
                             "trireme_library(runtime/base\n  SOURCES a.cpp\n  USES runtime/comm LINKS fmt::fmt)\n"})
        self.assertEqual(["runtime/base/CMakeLists.txt:3: runtime/base may not use runtime/comm"], found)

    def test_an_unknown_folder_is_refused(self):
        self.assertIn("not in the table", mistakes_of({"trainer/utils/a.h": ""})[0])

    def test_the_table_has_no_circle(self):
        order = []

        def visit(folder, path):
            self.assertNotIn(folder, path, "a circle of arrows")
            if folder not in order:
                for other in check_arrows.may_include(folder) - {folder}:
                    visit(other, path + [folder])
                order.append(folder)

        for folder in check_arrows.ALLOWED:
            visit(folder, [])


if __name__ == "__main__":
    unittest.main()
