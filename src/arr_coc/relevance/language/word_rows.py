"""Words of a question as rows of a small table, by their hashes: any word has one, and needs no list."""

from __future__ import annotations

import re
import zlib

MOST_WORDS = 24


def word_rows(question: str, buckets: int) -> list[int]:
    """1 … buckets − 1 for each word, in order, at most 24; 0 is kept for padding."""
    words = re.findall(r"[^\W_]+", question.lower())[:MOST_WORDS]
    return [1 + zlib.crc32(word.encode()) % (buckets - 1) for word in words]
