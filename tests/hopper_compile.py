"""Compile a specialised kernel for sm_90, without a GPU; print what became of it as JSON.

``python tests/hopper_compile.py partials_specialised_kernel 1`` (with entropy) or ``0``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout

from fused_lmhead.kernels import specialised


def compiled(name: str, entropy: bool):
    kernel = getattr(specialised, name)
    swizzle = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)

    def boxes(rows: int, columns: int) -> str:
        return f"tensordesc<bf16[{rows}, {columns}],{swizzle!r}>"

    constants = {"V": 131072, "H": 4096, "ENTROPY": entropy, "GROUP_M": 16, "STAGES": 3}
    if not entropy and "entropy_ptr" in kernel.arg_names:
        constants |= {"entropy_ptr": None, "grad_entropy_ptr": None}
    types = {"hidden": boxes(128, 64), "weight": boxes(256, 64), "out": boxes(64, 256)}
    types |= {"target_ptr": "*i64", "M": "i32", "first_column": "i32", "tiles_n": "i32"}
    types |= {"scale": "fp32", "inverse_temperature": "fp32"}
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else types.get(name, "*fp32") for name in names
    }
    source = GluonASTSource(
        kernel, signature, {(names.index(name),): value for name, value in constants.items()}
    )
    return triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "maxnreg": 168}
    )


def main() -> None:
    kernel = compiled(sys.argv[1], sys.argv[2] == "1")
    disassembler = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(kernel.asm["cubin"])
        cubin.flush()
        code = subprocess.run(
            [disassembler, cubin.name], capture_output=True, text=True, check=True
        ).stdout
    counts = {
        "products": len(re.findall(r"HGMMA\.64x256x16", code)),
        "spills": len(re.findall(r"\b(?:STL|LDL)\b", code)),
        "shared": kernel.metadata.shared,
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
