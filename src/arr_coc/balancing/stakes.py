"""What a wrong answer would cost, guessed from the words of the question: a prior, not a judgement.

Whole words only: "total" is about money, "totality" is about an eclipse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

THREAT, HEALTH, LAW, MONEY, TRAFFIC, CASUAL = 0.95, 0.95, 0.7, 0.6, 0.6, 0.1
# A question without any of the words below.
UNKNOWN = 0.2

STAKES: Mapping[str, float] = {
    **dict.fromkeys(("danger", "dangers", "dangerous", "emergency", "threat", "threats", "threatening"), THREAT),
    **dict.fromkeys(("weapon", "weapons", "gun", "guns", "knife", "knives", "bomb", "explosive"), THREAT),
    **dict.fromkeys(("fire", "smoke", "leak", "leaking", "drowning", "trapped", "intruder", "attack"), THREAT),
    **dict.fromkeys(("toxic", "poison", "poisonous", "hazard", "hazardous", "unsafe"), THREAT),
    **dict.fromkeys(("tumor", "tumors", "tumour", "tumours", "cancer", "lesion", "lesions", "nodule"), HEALTH),
    **dict.fromkeys(("fracture", "fractures", "bleeding", "haemorrhage", "hemorrhage", "stroke"), HEALTH),
    **dict.fromkeys(("diagnosis", "diagnose", "patient", "symptom", "symptoms", "malignant"), HEALTH),
    **dict.fromkeys(("dose", "doses", "dosage", "medication", "allergy", "allergic", "allergens"), HEALTH),
    **dict.fromkeys(("contract", "clause", "legal", "liability", "court", "signature", "deadline"), LAW),
    **dict.fromkeys(("password", "passport", "licence", "license", "expiry", "expires"), LAW),
    **dict.fromkeys(("total", "subtotal", "amount", "invoice", "payment", "balance due", "tax", "iban"), MONEY),
    **dict.fromkeys(("account number", "cost", "costs", "price", "salary", "refund", "debt"), MONEY),
    **dict.fromkeys(("stop sign", "traffic light", "speed limit", "pedestrian", "pedestrians"), TRAFFIC),
    **dict.fromkeys(("funny", "cute", "pretty", "beautiful", "nice", "favourite", "favorite", "mood"), CASUAL),
    **dict.fromkeys(("describe", "caption", "story", "joke", "style", "vibe"), CASUAL),
}


@dataclass(frozen=True)
class Stakes:
    """value: in [0, 1]. words: those of the question that raised it, empty where none is in the table."""

    value: float
    words: tuple[str, ...] = ()


def keyword_stakes(question: str, table: Mapping[str, float] = STAKES) -> Stakes:
    """The highest stakes among the table's words and phrases that stand in the question as whole words."""
    plain = " ".join(re.findall(r"\w+", question.lower()))
    found = tuple(words for words in table if re.search(rf"\b{re.escape(words)}\b", plain))
    if not found:
        return Stakes(UNKNOWN)
    highest = max(table[words] for words in found)
    return Stakes(highest, tuple(words for words in found if table[words] == highest))
