"""Images turned, by PyTorch's grid_sample in f64: python make_images.py > images.txt

A line: height width degrees -> the elements of the turned image, row by row. Element (r, c) of the image that is turned
is ((r * 7 + c * 3) % 11) / 4.
"""
import math

import torch

for h, w, degrees in [(4, 4, 30), (5, 7, -45), (3, 6, 90), (6, 3, 200.5), (1, 5, 10), (5, 4, 0)]:
    x = torch.tensor([[((r * 7 + c * 3) % 11) / 4 for c in range(w)] for r in range(h)], dtype=torch.float64)
    a = math.radians(degrees)
    down = (torch.arange(h, dtype=torch.float64) - (h - 1) / 2)[:, None]
    right = (torch.arange(w, dtype=torch.float64) - (w - 1) / 2)[None, :]
    row, column = math.sin(a) * right + math.cos(a) * down, math.cos(a) * right - math.sin(a) * down
    grid = torch.stack([2 * column / w, 2 * row / h], -1)  # -1 and 1 are the edges of the image
    y = torch.nn.functional.grid_sample(x[None, None], grid[None], "bilinear", "zeros", align_corners=False)
    print(h, w, degrees, "->", *(f"{v:.12g}" for v in y.flatten().tolist()))
