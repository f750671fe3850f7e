"""Bytes that somebody sent to samples.

WAV is a header and numbers, so it is read right here, and no decoder of a compressed format runs on
bytes from the network.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.domain.media import Sound, UnreadableMedia
from inference.media.limits import MediaLimits

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_NOT_WAV = "it is not a WAV file of PCM or float samples"
MAX_CHANNELS = 8
MIN_RATE, MAX_RATE = 1_000, 384_000
MIN_SOUND_S = 0.2
# Half the width of the low-pass filter, in samples of the slower rate.
_FILTER_LOBES = 16

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class WaveFormat:
    """The `fmt ` chunk of a WAV file."""

    kind: int
    num_channels: int
    rate: int
    num_bits: int

    @property
    def frame_bytes(self) -> int:
        return self.num_channels * self.num_bits // 8


def decode_sound(data: bytes, digest: bytes, rate: int, limits: MediaLimits) -> Sound:
    """The samples of a WAV file, its channels mixed, at `rate` samples a second. Raises UnreadableMedia."""
    shape, body = _read_chunks(data)
    num_frames = len(body) // shape.frame_bytes
    if num_frames > limits.max_sound_s * shape.rate:
        raise UnreadableMedia(f"it is longer than {limits.max_sound_s:g} s")
    if not num_frames:
        raise UnreadableMedia("there is nothing to be heard in it")
    # A file of floats may hold anything, also what is no number.
    with np.errstate(all="ignore"):
        samples = _numbers(shape, body[: num_frames * shape.frame_bytes])
        channels = np.clip(np.nan_to_num(samples), -1, 1).reshape(num_frames, shape.num_channels)
    mixed = channels.mean(axis=1, dtype=np.float32)
    # Some encoders look a window ahead, and llama.cpp ends the process where there is none.
    silence = max(0, int(MIN_SOUND_S * shape.rate) - num_frames)
    heard = resample(np.pad(mixed, (0, silence)), shape.rate, rate)
    return Sound(np.clip(heard, -1, 1).astype(np.float32).tobytes(), rate, digest)


def _read_chunks(data: bytes) -> tuple[WaveFormat, memoryview]:
    """The format and the bytes of the samples; a file that is cut off has those that are there."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise UnreadableMedia(_NOT_WAV)
    view, place, shape = memoryview(data), 12, None
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        body = view[place + 8 : place + 8 + size]
        if name == b"fmt ":
            shape = _read_format(body)
        elif name == b"data" and shape is not None:
            return shape, body
        place += 8 + size + size % 2
    raise UnreadableMedia(_NOT_WAV)


def _read_format(body: memoryview) -> WaveFormat:
    if len(body) < 16:
        raise UnreadableMedia(_NOT_WAV)
    kind, num_channels, rate, _, _, num_bits = struct.unpack_from("<HHIIHH", body)
    if kind == _EXTENSIBLE and len(body) >= 26:
        (kind,) = struct.unpack_from("<H", body, 24)
    has_bits = num_bits in ((8, 16, 24, 32) if kind == _PCM else (32, 64))
    if kind not in (_PCM, _FLOAT) or not has_bits:
        raise UnreadableMedia(_NOT_WAV)
    if not 1 <= num_channels <= MAX_CHANNELS or not MIN_RATE <= rate <= MAX_RATE:
        raise UnreadableMedia(f"it has {num_channels} channels of {rate} samples a second")
    return WaveFormat(kind, num_channels, rate, num_bits)


def _numbers(shape: WaveFormat, body: memoryview) -> Samples:
    """Every number in the file, from -1 to 1."""
    if shape.kind == _FLOAT:
        return np.frombuffer(body, dtype=f"<f{shape.num_bits // 8}").astype(np.float32)
    whole: NDArray[np.signedinteger]
    if shape.num_bits == 8:
        whole = np.frombuffer(body, dtype=np.uint8).astype(np.int16) - 128
    elif shape.num_bits == 24:
        # The three bytes are the upper ones of four, of which a shift takes the lowest away.
        wide = np.zeros((len(body) // 3, 4), dtype=np.uint8)
        wide[:, 1:] = np.frombuffer(body, dtype=np.uint8).reshape(-1, 3)
        whole = wide.view("<i4").reshape(-1) >> 8
    else:
        whole = np.frombuffer(body, dtype=f"<i{shape.num_bits // 8}")
    samples: Samples = (whole / 2 ** (shape.num_bits - 1)).astype(np.float32)
    return samples


def resample(samples: Samples, rate: int, wanted: int) -> Samples:
    """At another rate: what is too high for the slower one is filtered out (windowed sinc), the rest is
    read between the samples, in straight lines."""
    if rate == wanted:
        return samples
    if wanted < rate:
        step = rate / wanted
        reach = np.arange(-int(_FILTER_LOBES * step), int(_FILTER_LOBES * step) + 1)
        kernel = np.sinc(reach / step) * np.hanning(len(reach) + 2)[1:-1]
        size = len(samples) + len(kernel) - 1
        spectrum = np.fft.rfft(samples, size) * np.fft.rfft(kernel / kernel.sum(), size)
        begin = len(kernel) // 2
        samples = np.fft.irfft(spectrum, size)[begin : begin + len(samples)].astype(np.float32)
    places = np.arange(max(2, int(len(samples) * wanted / rate))) * (rate / wanted)
    heard: Samples = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return heard
