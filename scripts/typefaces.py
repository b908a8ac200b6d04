"""The typefaces of the glyph atlas: where each is found, under which licence, and whether it is held out for testing.

Paths are relative to the folder into which `scripts/typefaces.txt` was installed. The held-out faces, and every other
style of their families, must never be trained on; the order of all faces up to them decides the pictures of old seeds.
"""

from __future__ import annotations

from typing import NamedTuple

OFL = "SIL Open Font License 1.1"
APACHE = "Apache License 2.0"
VERA = "Bitstream Vera / DejaVu licence"
GUST = "GUST Font License (LaTeX Project Public License 1.3c)"
STIX = f"STIX Font License ({OFL})"


class Typeface(NamedTuple):
    """scale: its size where others have 1; some are drawn small on their body, and old-style figures are low.
    spare: the face that lends the characters which this one lacks, such as the euro sign.
    """

    name: str
    file: str
    licence: str
    held_out: bool = False
    scale: float = 1.0
    spare: str = "DejaVu Sans"


ROBOTO = "font_roboto/files/Roboto-"
SANS = "font_source_sans_pro/files/SourceSansPro-"
SERIF = "font_source_serif_pro/files/SourceSerifPro-"
PLOTS = "matplotlib/mpl-data/fonts/ttf/"
LATIN = "trdg/fonts/latin/"
WEB = "gradio/templates/frontend/static/fonts/"
MATHS = "gradio/templates/frontend/assets/KaTeX_"
THEMES = "jupyterthemes/fonts/"
LIBERATION = "arcade/resources/system/fonts/ttf/Liberation/Liberation_"
PSYCHOLOGY = "psychopy/assets/fonts/"
SPHINX = "sphinx_rtd_theme/static/css/fonts/Roboto-Slab-"
NEFERTITI = "sphinx_nefertiti/fonts/"
CAPTCHA = "multicolorcaptcha/fonts/GoogleFonts/ofl/"
GYRE = "rinoh_typeface_texgyre"

FACES = (
    Typeface("Roboto", ROBOTO + "Regular.ttf", APACHE),
    Typeface("Roboto Bold", ROBOTO + "Bold.ttf", APACHE),
    Typeface("Source Sans Pro", SANS + "Regular.ttf", OFL),
    Typeface("Source Sans Pro Semibold", SANS + "Semibold.ttf", OFL),
    Typeface("Source Serif Pro", SERIF + "Regular.ttf", OFL),
    Typeface("Source Serif Pro Semibold", SERIF + "Semibold.ttf", OFL),
    Typeface("DejaVu Sans", PLOTS + "DejaVuSans.ttf", VERA),
    Typeface("DejaVu Sans Mono", PLOTS + "DejaVuSansMono.ttf", VERA),
    Typeface("DejaVu Serif", PLOTS + "DejaVuSerif.ttf", VERA),
    Typeface("STIX General", PLOTS + "STIXGeneral.ttf", STIX),
    Typeface("Fredoka One", "font_fredoka_one/files/FredokaOne-Regular.ttf", OFL),
    Typeface("Intuitive", "font_intuitive/files/Intuitive.ttf", OFL),
    Typeface("Hanken Grotesk", "font_hanken_grotesk/files/HankenGrotesk-Medium.otf", OFL, held_out=True),
    Typeface("Caladea", "font_caladea/files/Caladea-Regular.ttf", APACHE, held_out=True),
    Typeface("Manrope", "font_manrope/files/Manrope-SemiBold.ttf", OFL, held_out=True),
    # Without serifs: humanist, grotesque, geometric; light, bold, slanted, condensed.
    Typeface("Open Sans", LATIN + "OpenSans-Regular.ttf", APACHE),
    Typeface("Open Sans Light", LATIN + "OpenSans-Light.ttf", APACHE),
    Typeface("Open Sans Semibold Italic", LATIN + "OpenSans-SemiboldItalic.ttf", APACHE),
    Typeface("Lato", LATIN + "Lato-Regular.ttf", OFL),
    Typeface("Lato Heavy Italic", LATIN + "Lato-HeavyItalic.ttf", OFL),
    Typeface("Raleway Medium", LATIN + "Raleway-Medium.ttf", OFL),
    Typeface("Raleway ExtraBold", LATIN + "Raleway-ExtraBold.ttf", OFL),
    Typeface("Roboto Condensed", LATIN + "RobotoCondensed-Regular.ttf", APACHE),
    Typeface("Roboto Condensed Bold", LATIN + "RobotoCondensed-Bold.ttf", APACHE),
    Typeface("Roboto Light Italic", ROBOTO + "LightItalic.ttf", APACHE),
    Typeface("Droid Sans Bold", LATIN + "DroidSans-Bold.ttf", APACHE),
    Typeface("Noto Sans Italic", PSYCHOLOGY + "NotoSans-Italic.ttf", OFL),
    Typeface("IBM Plex Sans", WEB + "IBMPlexSans/IBMPlexSans-Regular.woff2", OFL),
    Typeface("IBM Plex Sans Bold", WEB + "IBMPlexSans/IBMPlexSans-Bold.woff2", OFL),
    Typeface("Montserrat Bold", WEB + "Montserrat/Montserrat-Bold.woff2", OFL),
    Typeface("Quicksand Bold", WEB + "Quicksand/Quicksand-Bold.woff2", OFL),
    Typeface("PT Sans", THEMES + "sans-serif/ptsans/pt-sans-regular.ttf", OFL),
    Typeface("Liberation Sans", LIBERATION + "Sans_Regular.ttf", OFL),
    Typeface("Liberation Sans Bold", LIBERATION + "Sans_Bold.ttf", OFL),
    Typeface("Work Sans", NEFERTITI + "work-sans/WorkSans-Regular.ttf", OFL),
    Typeface("Sofia Sans", NEFERTITI + "sofia-sans/SofiaSans-Regular.ttf", OFL),
    Typeface("Mulish", NEFERTITI + "mulish/Mulish-Regular.ttf", OFL),
    Typeface("Nunito SemiBold", NEFERTITI + "nunito/Nunito-SemiBold.ttf", OFL),
    Typeface("Red Hat Display", NEFERTITI + "red-hat-display/RedHatDisplay-Regular.ttf", OFL),
    Typeface("Exo", NEFERTITI + "exo/Exo-Regular.ttf", OFL, scale=0.95),
    Typeface("Aldrich", CAPTCHA + "aldrich/Aldrich-Regular.ttf", OFL),
    Typeface("TeX Gyre Heros", GYRE + "heros/texgyreheros-regular.otf", GUST),
    Typeface("TeX Gyre Heros Bold Italic", GYRE + "heros/texgyreheros-bolditalic.otf", GUST),
    Typeface("TeX Gyre Heros Condensed", GYRE + "heros/texgyreheroscn-regular.otf", GUST),
    Typeface("TeX Gyre Heros Condensed Bold", GYRE + "heros/texgyreheroscn-bold.otf", GUST),
    Typeface("TeX Gyre Adventor", GYRE + "adventor/texgyreadventor-regular.otf", GUST),
    Typeface("TeX Gyre Adventor Bold", GYRE + "adventor/texgyreadventor-bold.otf", GUST),
    # With serifs: old-style, transitional, modern, slab.
    Typeface("EB Garamond", THEMES + "serif/ebserif/EBGaramond-Regular.ttf", OFL, scale=1.05),
    Typeface("Cardo", THEMES + "serif/cardoserif/Cardo-Regular.ttf", OFL),
    Typeface("Sorts Mill Goudy", THEMES + "serif/goudyserif/SortsMillGoudy-Regular.ttf", OFL, scale=1.1),
    Typeface("Lora", THEMES + "serif/loraserif/Lora-Regular.ttf", OFL),
    Typeface("Merriweather", THEMES + "serif/merriserif/Merriweather-Regular.ttf", OFL, scale=0.95),
    Typeface("Neuton", THEMES + "serif/neutonserif/neuton-regular.ttf", OFL, scale=1.08),
    Typeface("PT Serif", THEMES + "serif/ptserif/pt-serif-regular.ttf", OFL),
    Typeface("PT Serif Italic", THEMES + "serif/ptserif/pt-serif-italic.ttf", OFL),
    Typeface("Source Serif Pro Italic", SERIF + "It.ttf", OFL),
    Typeface("TeX Gyre Termes Bold", GYRE + "termes/texgyretermes-bold.otf", GUST),
    Typeface("TeX Gyre Pagella", GYRE + "pagella/texgyrepagella-regular.otf", GUST),
    Typeface("TeX Gyre Pagella Bold Italic", GYRE + "pagella/texgyrepagella-bolditalic.otf", GUST),
    Typeface("TeX Gyre Bonum", GYRE + "bonum/texgyrebonum-regular.otf", GUST),
    Typeface("TeX Gyre Schola", GYRE + "schola/texgyreschola-regular.otf", GUST),
    Typeface("TeX Gyre Schola Bold", GYRE + "schola/texgyreschola-bold.otf", GUST),
    Typeface("KaTeX Main", MATHS + "Main-Regular-ypZvNtVU.ttf", OFL, scale=1.08, spare="TeX Gyre Schola"),
    Typeface("Roboto Slab", SPHINX + "Regular.woff", APACHE),
    Typeface("Roboto Slab Bold", SPHINX + "Bold.woff", APACHE),
    # Of one width, as till rolls, typewriters and screens have them.
    Typeface("IBM Plex Mono", WEB + "IBMPlexMono/IBMPlexMono-Regular.woff2", OFL),
    Typeface("Inconsolata", WEB + "Inconsolata/Inconsolata-Regular.woff2", OFL, scale=1.05),
    Typeface("Share Tech Mono", WEB + "ShareTechMono/ShareTechMono-Regular.woff2", OFL),
    Typeface("Anonymous Pro", THEMES + "monospace/anonymous-pro/anonymous-pro.ttf", OFL, scale=1.05),
    Typeface("Fira Mono", THEMES + "monospace/fira/fira.ttf", OFL),
    Typeface("Iosevka", THEMES + "monospace/iosevka/iosevka.ttf", OFL, scale=0.95),
    Typeface("Source Code Pro Medium", THEMES + "monospace/source-code-medium/source-code-pro-medium.ttf", OFL),
    Typeface("PT Mono", THEMES + "monospace/ptmono/ptmono.ttf", OFL),
    Typeface("JetBrains Mono", PSYCHOLOGY + "JetBrainsMono-VariableFont_wght.ttf", OFL),
    Typeface("Liberation Mono Bold", LIBERATION + "Mono_Bold.ttf", OFL),
    Typeface("TeX Gyre Cursor Bold", GYRE + "cursor/texgyrecursor-bold.otf", GUST, scale=1.05),
    Typeface("KaTeX Typewriter", MATHS + "Typewriter-Regular-D3Ib7_Hf.ttf", OFL, scale=1.05, spare="Inconsolata"),
    # Drawn or written by hand.
    Typeface("Comic Neue", "pygame_menu/resources/fonts/comic_neue.ttf", OFL, scale=1.05),
    Typeface("Combo", CAPTCHA + "combo/Combo-Regular.ttf", OFL),
    Typeface("Kaushan Script", CAPTCHA + "kaushanscript/KaushanScript-Regular.ttf", OFL, scale=0.9),
    Typeface("Londrina Solid Light", CAPTCHA + "londrinasolid/LondrinaSolid-Light.ttf", OFL),
    Typeface("TeX Gyre Chorus", GYRE + "chorus/texgyrechorus-mediumitalic.otf", GUST, scale=1.15),
)

# The full text of every licence, once: its name, a file that holds it, and the words with which it begins there.
LICENCE_TEXTS = (
    (OFL, "font_source_sans_pro/files/LICENSE.txt", "-" * 59 + "\nSIL OPEN FONT LICENSE"),
    (APACHE, "font_roboto/files/LICENSE", ""),
    (VERA, PLOTS + "LICENSE_DEJAVU", ""),
    (STIX, PLOTS + "LICENSE_STIX", ""),
    (GUST, GYRE + "heros/GUST-FONT-LICENSE.txt", ""),
)
