"""Small PNG images of every kind, written by Pillow or by hand, as C arrays: python make_png.py > ../data/png_samples.h

Sample "rgba": pixel (r, c) has 40 r + 10 c + channel, in 16 bits 257 times that plus 3.
"""
import struct
import zlib

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

def png(width, height, depth, color, rows, extra=b"", interlace=0):
    data = zlib.compress(rows, 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace))
            + extra + chunk(b"IDAT", data) + chunk(b"IEND", b""))

W, H = 3, 2
def pixels(channels, wide):
    out = b""
    for r in range(H):
        out += b"\0"
        for c in range(W):
            for k in range(channels):
                v = 40 * r + 10 * c + k
                out += struct.pack(">H", 257 * v + 3) if wide else bytes([v])
    return out

samples = {}
for name, color, channels in [("gray", 0, 1), ("gray_alpha", 4, 2), ("rgb", 2, 3), ("rgba", 6, 4)]:
    samples[name] = png(W, H, 8, color, pixels(channels, False))
    samples[name + "_16"] = png(W, H, 16, color, pixels(channels, True))
samples["one_bit"] = png(10, 2, 1, 0, b"\0\xaa\x80\0\x55\x40")
palette = chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0, 1, 2, 3]))
samples["palette"] = png(3, 2, 8, 3, b"\0\0\1\2\0\2\1\0", palette)
samples["palette_alpha"] = png(3, 1, 8, 3, b"\0\0\1\2", palette + chunk(b"tRNS", bytes([0, 128])))
samples["with_gamma"] = png(W, H, 8, 0, pixels(1, False), chunk(b"gAMA", struct.pack(">I", 100000)))
def adam7(width, height, at):  # the seven passes of an interlaced image of 8 bits gray
    out = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        for r in range(y0, height, dy):
            row = bytes(at(r, c) for c in range(x0, width, dx))
            out += b"\0" + row if row else b""
    return out
samples["interlaced"] = png(5, 4, 8, 0, adam7(5, 4, lambda r, c: 40 * r + 10 * c), interlace=1)
samples["huge"] = png(900000, 900000, 16, 6, b"\0" * 64)
samples["no_pixels"] = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 5, 8, 0, 0, 0, 0))

print("/* Made by tests/golden/make_png.py. */\n/* clang-format off */")
for name, data in samples.items():
    print(f"static const unsigned char png_{name}[] = {{")
    for at in range(0, len(data), 24):
        print("    " + ", ".join(map(str, data[at : at + 24])) + ",")
    print("};")
