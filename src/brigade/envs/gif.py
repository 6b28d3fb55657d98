"""Films of games as GIFs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

UNCHANGED = 255  # the last of 256 palette entries marks pixels that do not change
EXACT_COLOURS = 32  # palette entries for floor, wood and other flat areas
PALETTE_FRAMES = 48  # number of frames, evenly spaced, from which the palette is computed
LAST_FRAME_MS = 1000


def save_gif(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: int = 8) -> None:
    """Write a looping GIF that pauses on its last frame; repeated frames are merged."""
    pictures = list(frames)
    if not pictures or fps < 1:
        raise ValueError("a GIF needs at least one frame and at least one frame per second")
    colours = shared_colours(pictures)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    # Without dithering, pixels that do not change keep their colour from frame to frame.
    first, *rest = [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE)
        for picture in pictures
    ]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("xb") as file:
            first.save(
                file,
                format="GIF",
                save_all=True,
                append_images=rest,
                duration=[round(100 / fps) * 10] * len(rest) + [LAST_FRAME_MS],  # units of 10 ms
                loop=0,
                disposal=1,
                palette=colours.ljust(3 * 256, b"\0"),  # once for all frames
                transparency=UNCHANGED,
                optimize=True,  # unchanged pixels become `transparency`
            )
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def shared_colours(pictures: Sequence[np.ndarray]) -> bytes:
    """The palette of a GIF: the most frequent colours exactly, the others clustered."""
    step = max(len(pictures) // PALETTE_FRAMES, 1)
    pixels = np.concatenate([picture.reshape(-1, 3) for picture in pictures[::step]])
    codes, counts = np.unique(pixels @ np.array([1 << 16, 1 << 8, 1]), return_counts=True)
    codes = codes[np.argsort(-counts, kind="stable")]
    colours = np.stack([codes >> 16, codes >> 8, codes], axis=-1).astype(np.uint8)
    exact, others = colours[:EXACT_COLOURS], colours[EXACT_COLOURS:]
    entries = exact.tobytes()
    if len(others):
        # Each colour counts once, so small items matter as much as large counters.
        grouped = Image.fromarray(others[None]).quantize(UNCHANGED - EXACT_COLOURS, kmeans=4)
        entries += bytes(grouped.getpalette() or [])
    triples = (entries[i : i + 3] for i in range(0, len(entries), 3))
    return b"".join(dict.fromkeys(triples))  # without duplicates, as Pillow requires
