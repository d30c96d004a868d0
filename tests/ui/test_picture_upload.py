"""Pictures that are uploaded: made small, upright, and refused before they can do harm."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from mha_viz.errors import ArgumentError
from mha_viz.ui.widgets.controls.picture_upload import MAX_FILE, read_picture


def a_file(image, kind="PNG", **options):
    held = io.BytesIO()
    image.save(held, kind, **options)
    return held.getvalue()


def test_a_file_is_made_small_and_keeps_its_shape():
    image = Image.new("RGB", (640, 320), (255, 0, 0))
    image.paste((0, 0, 255), (320, 0, 640, 320))
    for kind in ("PNG", "JPEG"):
        found, size = read_picture(a_file(image, kind), 16)
        assert found.shape == (8, 16, 3) and size == (320, 640)
        np.testing.assert_allclose(found[4, 2], [1.0, 0, 0], atol=0.02)
        np.testing.assert_allclose(found[4, -3], [0.0, 0, 1], atol=0.02)
    small, _ = read_picture(a_file(Image.new("L", (3, 2), 51)), 16)
    np.testing.assert_allclose(small, np.full((2, 3, 3), 0.2))
    thin, _ = read_picture(a_file(Image.new("L", (4000, 1))), 16)
    assert thin.shape == (1, 16, 3)


def test_a_file_turned_by_a_camera_stands_upright():
    image = Image.new("RGB", (40, 20))
    exif = image.getexif()
    exif[0x0112] = 6  # lies on its side
    found, _ = read_picture(a_file(image, "JPEG", exif=exif), 16)
    assert found.shape == (16, 8, 3)


def png_of(width, height):
    """A PNG that says it is that large, and holds nothing."""
    data = bytearray(a_file(Image.new("L", (1, 1))))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def test_files_that_are_refused():
    with pytest.raises(ArgumentError, match=r"4\.2 megapixels"):
        read_picture(png_of(2100, 2000), 16)
    with pytest.raises(ArgumentError, match="megapixels"):
        read_picture(png_of(60_000, 60_000), 16)
    for bad in (b"", b"GIF89a", b"<svg/>", a_file(Image.new("RGB", (9, 9)), "GIF")):
        with pytest.raises(ArgumentError, match="PNG or JPEG"):
            read_picture(bad, 16)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50), dtype=np.uint8))
    with pytest.raises(ArgumentError, match="PNG or JPEG"):
        read_picture(a_file(noise)[:900], 16)
    with pytest.raises(ArgumentError, match="5 MB"):
        read_picture(b"x" * (MAX_FILE + 1), 16)
