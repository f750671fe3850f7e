"""Draws a QR code as the path of an SVG: nothing of it is a file, a script or another host's."""

from __future__ import annotations

from dataclasses import dataclass

import qrcode


@dataclass(frozen=True, slots=True)
class QrCode:
    """`path` for an SVG whose view box is `size` modules wide and high, the quiet zone included."""

    size: int
    path: str


def qr_code(text: str) -> QrCode:
    drawn = qrcode.QRCode(border=4)
    drawn.add_data(text)
    drawn.make(fit=True)
    matrix = drawn.get_matrix()
    path = "".join(
        f"M{column} {row}h1v1h-1z"
        for row, modules in enumerate(matrix)
        for column, is_dark in enumerate(modules)
        if is_dark
    )
    return QrCode(len(matrix), path)
