from __future__ import annotations

import struct

import numpy as np
import pytest

from inference.domain.media import Sound, UnreadableMedia
from inference.media.limits import MediaLimits
from inference.media.sounds import decode_sound, resample
from tests.unit.media.files import wave_file

LIMITS = MediaLimits(max_sound_s=2.0)
TONE = np.sin(np.arange(16_000) * 2 * np.pi * 440 / 16_000) * 0.5


def samples_of(sound: Sound) -> np.ndarray:
    return np.frombuffer(sound.samples, dtype=np.float32)


def as_24_bits(samples: np.ndarray) -> np.ndarray:
    whole = (samples * 2**31).astype("<i4")
    return whole.view(np.uint8).reshape(-1, 4)[:, 1:]


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        (np.round(TONE * 127 + 128).astype(np.uint8), 1),
        (np.round(TONE * 2**15).astype("<i2"), 1),
        (as_24_bits(TONE), 1),
        (np.round(TONE * 2**31).astype("<i4"), 1),
        (TONE.astype("<f4"), 3),
        (TONE.astype("<f8"), 3),
    ],
)
def test_every_kind_of_number_is_read(samples: np.ndarray, kind: int) -> None:
    sound = decode_sound(wave_file(samples, kind=kind), b"digest", 16_000, LIMITS)
    assert (sound.rate, sound.digest) == (16_000, b"digest")
    assert np.abs(samples_of(sound) - TONE).max() < 0.01


def test_the_extensible_header_says_the_kind_further_behind() -> None:
    extra = struct.pack("<HHIH14x", 22, 32, 0, 3)
    sound = decode_sound(wave_file(TONE.astype("<f4"), kind=0xFFFE, extra=extra), b"", 16_000, LIMITS)
    assert np.abs(samples_of(sound) - TONE).max() < 0.001


def test_channels_are_mixed() -> None:
    both = np.stack([TONE, -TONE], axis=1).reshape(-1).astype("<f4")
    sound = decode_sound(wave_file(both, kind=3, num_channels=2), b"", 16_000, LIMITS)
    assert len(samples_of(sound)) == len(TONE)
    assert np.abs(samples_of(sound)).max() == 0


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000, 96_000])
def test_other_rates_keep_what_can_be_heard(rate: int) -> None:
    tone = np.sin(np.arange(rate) * 2 * np.pi * 440 / rate).astype(np.float32) * 0.5
    heard = resample(tone, rate, 16_000)
    assert abs(len(heard) - 16_000) <= 1
    middle = slice(1000, 15_000)
    assert np.abs(heard[middle] - TONE[: len(heard)][middle]).max() < 0.02


def test_what_is_too_high_is_filtered_and_not_folded_down() -> None:
    shrill = np.sin(np.arange(48_000) * 2 * np.pi * 15_000 / 48_000).astype(np.float32)
    assert np.abs(resample(shrill, 48_000, 16_000)[500:-500]).max() < 0.05


def test_what_is_no_number_is_silence() -> None:
    wild = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 0.5] * 100)
    samples = samples_of(decode_sound(wave_file(wild, kind=3, rate=48_000), b"", 16_000, LIMITS))
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1


@pytest.mark.parametrize("num_samples", [1, 2, 100])
def test_a_click_is_followed_by_silence(num_samples: int) -> None:
    sound = decode_sound(wave_file(np.full(num_samples, 2**14, "<i2")), b"", 16_000, LIMITS)
    assert len(samples_of(sound)) == 3200
    assert samples_of(sound)[0] == 0.5
    assert not samples_of(sound)[num_samples:].any()


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(UnreadableMedia, match="longer than 2 s"):
        decode_sound(wave_file(np.zeros(32_001, "<i2")), b"", 16_000, LIMITS)


GOOD = wave_file(np.zeros(100, "<i2"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"ID3\x04" + bytes(100),
        b"\xff\xfb\x90\x64" + bytes(100),
        b"fLaC" + bytes(100),
        GOOD[:20],
        GOOD[:44],
        GOOD.replace(b"data", b"dtaa"),
        GOOD.replace(b"fmt ", b"fmt0"),
        wave_file(np.zeros(100, "<i2"), kind=85),
        wave_file(np.zeros(100, "<i2"), rate=0),
        wave_file(np.zeros(100, "<i2"), rate=4_000_000_000),
        wave_file(np.zeros(100, "<i2"), num_channels=0),
        wave_file(np.zeros(100, "<i2"), num_channels=60_000),
        wave_file(np.zeros(100, "<f2"), kind=3),
        wave_file(np.zeros(0, "<i2")),
        b"RIFF\0\0\0\0WAVE" + b"abcd\xff\xff\xff\xff" * 10,
        b"RIFF\0\0\0\0WAVE" + b"abcd\0\0\0\0" * 10,
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMedia):
        decode_sound(data, b"", 16_000, LIMITS)


def test_what_is_cut_off_ends_there() -> None:
    sound = decode_sound(wave_file(np.zeros(4000, "<i2"))[:-501], b"", 16_000, LIMITS)
    assert len(samples_of(sound)) == 3749
