"""TensorBoard events, in the run folder: the mean over seeds, and a curve of every seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.runs.sinks import FinalResults, Update, group_of

FOLDER = "tensorboard"


class TensorBoard:
    """A sink. Every seed is a run of TensorBoard, so that its curves lie in the same plots."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise UserError("--tensorboard needs pip install 'brigade-rl[tensorboard]'") from error
        self.folder, self.make_writer = folder / FOLDER, SummaryWriter
        self.writers: dict[str, Any] = {}  # by subfolder
        self.config: Mapping[str, Any] = {}

    def open(self, config: Mapping[str, Any]) -> None:
        """Keep the config for the first number, whose step the files begin with."""
        self.config = config

    def write(self, update: Update) -> None:
        """Write the mean and every seed's numbers."""
        self._write("", update.mean, update.steps)
        for seed, numbers in update.by_seed.items():
            self._write(f"seed-{seed}", numbers, update.steps)

    def finish(self, results: FinalResults) -> None:
        """Write the tables, the measures and the film."""
        final = {f"final/{name}": value for name, value in results.measures.items()}
        self._write("", final, results.steps)
        writer = self.writers[""]
        for name, (headings, rows) in results.tables.items():
            writer.add_text(f"tables/{name}", as_markdown(headings, rows), results.steps)
        if results.film is not None:
            writer.file_writer.add_summary(as_summary("film", results.film), results.steps)

    def close(self) -> None:
        """Close the files."""
        for writer in self.writers.values():
            writer.close()

    def _write(self, where: str, numbers: Mapping[str, float], steps: int) -> None:
        if where not in self.writers:
            # After a crash, what follows the last checkpoint is written again: TensorBoard drops
            # what it has from this step on.
            folder = self.folder / where
            # Names have only seconds: a run resumed at once would overwrite its first file.
            number = len(list(folder.glob("events.*")))
            writer = self.make_writer(
                str(folder), purge_step=steps, filename_suffix=f".{number:06d}"
            )
            self.writers[where] = writer
            if not where:
                writer.add_text("config", f"```json\n{json.dumps(self.config, indent=2)}\n```")
                writer.add_text("group", group_of(self.config))
        for name, value in numbers.items():
            self.writers[where].add_scalar(name, value, steps)


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that TensorBoard shows as one."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_summary(tag: str, gif: Path) -> Any:
    """A GIF as an image, which browsers play."""
    from PIL import Image
    from tensorboardX.proto.summary_pb2 import Summary

    with Image.open(gif) as picture:
        width, height = picture.size
    image = Summary.Image(
        width=width, height=height, colorspace=3, encoded_image_string=gif.read_bytes()
    )
    return Summary(value=[Summary.Value(tag=tag, image=image)])
