#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes other.bin, a safetensors file by the reference writer: every dtype it shares with Tenon, an empty
# tensor, a scalar, metadata.  Run by hand; needs numpy, torch and safetensors.
import torch
from safetensors.torch import save_file

T = {
    "bool": torch.tensor([True, False, True]),
    "i8": torch.tensor([-128, 127], dtype=torch.int8),
    "u8": torch.tensor([[1, 2], [3, 255]], dtype=torch.uint8),
    "i16": torch.tensor([-32768], dtype=torch.int16),
    "i32": torch.tensor([2147483647, -1], dtype=torch.int32),
    "i64": torch.tensor([[-(2**63)]], dtype=torch.int64),
    "f16": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "bf16": torch.tensor([1.5, 3.0], dtype=torch.bfloat16),
    "f32": torch.tensor([[0.1, -0.0, 3e38]], dtype=torch.float32),
    "f64": torch.tensor(0.1, dtype=torch.float64),
    "empty": torch.zeros((0, 3), dtype=torch.float32),
    "f8": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
}
save_file(T, "other.bin", metadata={"format": "pt", "note": 'a "b" \\ \n é'})
