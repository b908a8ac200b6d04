"""Typefaces by manner, those for training and those kept aside, and the Debian packages that bring them."""

from __future__ import annotations

import subprocess
from functools import cache

TRAIN = {
    "sans": (
        "DejaVu Sans|Liberation Sans|Liberation Sans Narrow|FreeSans|Roboto|Roboto Condensed|Open"
        " Sans|Lato|Cantarell|Cabin|Carlito|Arimo|Inter|Karla|Manrope|Noto Sans|Oxygen-Sans|PT Sans|PT Sans"
        " Narrow|Quicksand|Tuffy|Nimbus Sans|Nimbus Sans Narrow|Clear Sans|Dosis|Gillius ADF|Universalis ADF"
        " Std|Andika|Averia Sans GWF|Latin Modern Sans|Allerta|URW Gothic|Go|National Park"
    ),
    "serif": (
        "DejaVu Serif|Liberation Serif|FreeSerif|Caladea|Tinos|EB Garamond|Linux Libertine O|Latin Modern Roman|Noto"
        " Serif|Old Standard TT|PT Serif|Prociono|Quattrocento|Charis SIL|STIX|Nimbus Roman|P052|C059|Vollkorn|Roboto"
        " Slab|Averia Serif GWF|Cardo|Baskervald ADF Std|Yrsa|Arapey"
    ),
    "mono": (
        "DejaVu Sans Mono|Liberation Mono|FreeMono|Courier Prime|Cousine|Fira Code|Hack|Inconsolata|Nimbus Mono"
        " PS|Latin Modern Mono|GNUTypewriter|Anonymous Pro|OCR B|PT Mono|Tlwg Typewriter|Noto Sans Mono|JetBrains Mono"
    ),
    "hand": "Dancing Script|Kristi|Breip|Purisa|Comic Neue",
    "display": "Bebas Neue|Lobster Two|League Spartan|Yanone Kaffeesatz|Comfortaa|Jura|Play",
}
HELD = {
    "sans": "B612|Linux Biolinum O|TeX Gyre Heros|Sora|Junction|Routed Gothic|Switzera ADF",
    "serif": (
        "Gentium Plus|TeX Gyre Pagella|TeX Gyre Schola|URW Bookman|Goudy Bookletter 1911|Accanthis ADF Std|Fanwood Text"
    ),
    "mono": "TeX Gyre Cursor|Go Mono|Agave|mononoki|Oxygen Mono|OCRA",
    "hand": "DkgHandwriting|Humor Sans",
    "display": "TeX Gyre Adventor|OSP-DIN|Rasa",
}
PACKAGES = (
    "fonts-adf-accanthis fonts-adf-baskervald fonts-adf-gillius fonts-adf-switzera fonts-adf-universalis fonts-agave "
    "fonts-allerta fonts-anonymous-pro fonts-arapey fonts-averia-sans-gwf fonts-averia-serif-gwf fonts-b612 "
    "fonts-bebas-neue fonts-breip fonts-cabin fonts-cantarell fonts-cardo fonts-clear-sans fonts-comfortaa "
    "fonts-comic-neue fonts-courier-prime fonts-croscore fonts-crosextra-caladea fonts-crosextra-carlito "
    "fonts-dancingscript fonts-dejavu-core fonts-dejavu-extra fonts-dkg-handwriting fonts-dosis fonts-ebgaramond "
    "fonts-fanwood fonts-firacode fonts-font-awesome fonts-freefont-ttf fonts-gnutypewriter fonts-go "
    "fonts-goudybookletter fonts-hack-ttf fonts-humor-sans fonts-inconsolata fonts-inter fonts-jetbrains-mono "
    "fonts-junction fonts-jura fonts-karla fonts-kristi fonts-lato fonts-league-spartan fonts-liberation "
    "fonts-liberation2 fonts-linuxlibertine fonts-lmodern fonts-lobstertwo fonts-manrope fonts-mononoki "
    "fonts-national-park fonts-noto-core fonts-noto-mono fonts-ocr-a fonts-ocr-b fonts-oldstandard fonts-open-sans "
    "fonts-opendin fonts-oxygen fonts-paratype fonts-play fonts-prociono fonts-quattrocento fonts-quicksand "
    "fonts-roboto-slab fonts-roboto-unhinted fonts-routed-gothic fonts-sil-andika fonts-sil-charis "
    "fonts-sil-gentiumplus fonts-sora fonts-stix fonts-symbola fonts-texgyre fonts-tlwg-purisa-ttf "
    "fonts-tlwg-typewriter-ttf fonts-tuffy fonts-urw-base35 fonts-vollkorn fonts-yanone-kaffeesatz fonts-yrsa-rasa"
)


def typefaces(split: str, manner: str) -> list[str]:
    """Families of one manner (sans, serif, mono, hand, display) for "train" or "val"; the two share none."""
    return (TRAIN if split == "train" else HELD)[manner].split("|")


@cache
def missing() -> tuple[str, ...]:
    """Typefaces of both lists that fontconfig does not know here."""
    try:
        listed = subprocess.run(["fc-list", ":", "family"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    known = {name.strip().replace("\\-", "-") for line in listed.splitlines() for name in line.split(",")}
    wanted = [name for split in ("train", "val") for manner in TRAIN for name in typefaces(split, manner)]
    return tuple(name for name in wanted if name not in known)
