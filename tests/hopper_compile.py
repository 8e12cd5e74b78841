"""Compile a specialised kernel for sm_90, without a GPU; print what became of it as JSON.

``python tests/hopper_compile.py partials_specialised_kernel entropy=1 keep=0 v=131072``.
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


def compiled(name: str, entropy: bool = True, keep: bool = False, v: int = 131_072):
    kernel = getattr(specialised, name)
    swizzle = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)

    def boxes(rows: int, columns: int) -> str:
        return f"tensordesc<bf16[{rows}, {columns}],{swizzle!r}>"

    constants = {"V": v, "H": 4096, "ENTROPY": entropy, "GROUP_M": 16, "STAGES": 3}
    if "KEEP" in kernel.arg_names:
        constants |= {"KEEP": keep}
        if not keep:
            constants |= {"kept": None, "kept_largest_ptr": None}
    if not entropy and "entropy_ptr" in kernel.arg_names:
        constants |= {"entropy_ptr": None, "grad_entropy_ptr": None}
    types = {"hidden": boxes(128, 64), "weight": boxes(256, 64), "out": boxes(64, 256)}
    types |= {"kept": boxes(64, 256), "kept_stride": "i32"}
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
    options = dict(option.split("=") for option in sys.argv[2:])
    kernel = compiled(sys.argv[1], **{name: int(value) for name, value in options.items()})
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
