"""Colours, places, words about reading and ordinals in five languages, with their inflections: tables, no grammar.

Words are written as `plain` gives them: lower case, no accents, ß as ss. What a word means is said in English: a name
of `lexical.COLOURS`, a kind of place, a number. Which sense a word has in a question is `senses`' affair.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

LAST = -1


def plain(text: str) -> str:
    """Lower case, without accents: "Où est l'É?" and "ou est l'e?" are one."""
    letters = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@dataclass(frozen=True)
class Language:
    """colours, places, ordinals: meaning by word. reading: words and phrases. asking: what marks the language."""

    name: str
    colours: dict[str, str]
    places: dict[str, str]
    reading: frozenset[str]
    phrases: tuple[str, ...]
    ordinals: dict[str, int]
    lines: frozenset[str]
    asking: frozenset[str]

    def votes(self, words: list[str]) -> int:
        """How much speaks for a question being in this language; words that ask count most."""
        own = self.colours.keys() | self.places.keys() | self.reading | self.ordinals.keys()
        return sum(2 * (word in self.asking) + (word in own) for word in words)


@dataclass(frozen=True)
class Ordinal:
    """ "the third line": number 3 (-1: the last), said "third line". line: it counts lines of the whole page."""

    number: int
    said: str
    line: bool


@dataclass(frozen=True)
class CoupledWords:
    """The words of one question that something in a picture can be tied to, as they stand there, each once; and what
    colours and places they mean. language: None where no word of a known language was found."""

    colours: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    ordinals: tuple[Ordinal, ...] = ()
    colour_names: tuple[str, ...] = ()
    place_kinds: tuple[str, ...] = ()
    language: str | None = None

    def __bool__(self) -> bool:
        return bool(self.colours or self.places or self.reading)


def table(text: str, endings: str = "") -> dict[str, str]:
    """Lines "meaning: words"; a word that ends in * takes each of the endings (a bar stands for none)."""
    found = {}
    for line in text.strip().splitlines():
        meaning, _, words = line.partition(":")
        for word in words.split():
            stems = [word[:-1] + ending for ending in endings.replace("|", " |").split()] if word[-1] == "*" else [word]
            found |= {plain(one.replace("|", "")): meaning.strip() for one in stems}
    return found


def _numbers(text: str, endings: str = "") -> dict[str, int]:
    return {word: int(number) for word, number in table(text, endings).items()}


@lru_cache(maxsize=512)
def words_in(text: str) -> frozenset[str]:
    return frozenset(plain(text).split())


ENGLISH = Language(
    "English",
    table("""
red: red
orange: orange
yellow: yellow
green: green
blue: blue
purple: purple
violet: violet
pink: pink
brown: brown
black: black
white: white
grey: grey gray
cyan: cyan
turquoise: turquoise
teal: teal
magenta: magenta
beige: beige
gold: gold golden
silver: silver
"""),
    table("""
top: top topmost upper uppermost
bottom: bottom bottommost lower lowermost
left: left leftmost
right: right rightmost
centre: centre center middle central
corner: corner corners
"""),
    words_in("""
number numbers digit digits price prices cost costs total subtotal amount sum tax written write wrote writing says say
said reads read text word words letter letters name names named title titled heading label labels labelled labeled
caption date year years month phone telephone fax address percent percentage value values figure printed print signature
invoice receipt code serial
"""),
    ("how much", "how many", "what time", "which year", "what year"),
    _numbers("""
1: first 1st
2: second 2nd
3: third 3rd
4: fourth 4th
5: fifth 5th
6: sixth 6th
7: seventh 7th
8: eighth 8th
9: ninth 9th
10: tenth 10th
11: eleventh 11th
12: twelfth 12th
-1: last
"""),
    words_in("line lines"),
    words_in("""
the a an of to in on at is are was were be what which who whose whom where when why how does do did has have had it its
this that these those and or with from for by there than please show find tell me can you he she they
"""),
)

GERMAN = Language(
    "German",
    table(
        """
red: rot*
orange: orange orangefarben* orangen orangene orangenes orangener orangenen
yellow: gelb*
green: grün* gruen*
blue: blau*
purple: lila violett*
pink: rosa pink* rosafarben*
brown: braun*
black: schwarz*
white: weiß*
grey: grau*
turquoise: türkis* türkisfarben*
cyan: cyan
magenta: magenta
beige: beige* beigefarben*
gold: golden* goldfarben* gold
silver: silbern* silberfarben* silber
""",
        "| e er es en em",
    ),
    table(
        """
top: oben ober* oberst*
bottom: unten unter* unterst*
left: links link* linkest*
right: rechts recht* rechtest*
centre: mitte mittig mittler* zentrum zentral*
corner: ecke ecken
""",
        "e er es en em",
    )
    | {"mittig": "centre"},
    words_in("""
zahl zahlen nummer nummern ziffer ziffern preis preise kostet kosten summe betrag gesamtbetrag zwischensumme gesamt
steuer mwst geschrieben schrift aufschrift text wort wörter buchstabe buchstaben name namen heißt titel überschrift
beschriftung datum jahr jahre monat telefon telefonnummer fax adresse anschrift prozent prozentsatz wert werte gedruckt
unterschrift rechnung quittung kassenbon code wieviel wieviele lies lautet
"""),
    ("was steht", "steht geschrieben", "wie viel", "wie viele", "wie spat", "wie hoch", "welches jahr"),
    _numbers(
        """
1: erst*
2: zweit*
3: dritt*
4: viert*
5: fünft*
6: sechst*
7: siebt* siebent*
8: acht*
9: neunt*
10: zehnt*
-1: letzt*
""",
        "e er es en em",
    ),
    words_in("zeile zeilen"),
    words_in("""
der die das dem den des ein eine einen einem einer ist sind war was wer wo wie wann warum welche welcher welches welchen
auf im in an am zu zum zur von vom mit und oder steht hat haben für bei nach es er sie nicht auch dort hier bitte zeige
finde gibt viel viele seine ihre ganz
"""),
)

FRENCH = Language(
    "French",
    table(
        """
red: rouge rouges
orange: orange
yellow: jaune jaunes
green: vert*
blue: bleu*
purple: violet violets violette violettes mauve mauves pourpre
pink: rose roses
brown: marron brun*
black: noir*
white: blanc blancs blanche blanches
grey: gris grise grises
cyan: cyan
turquoise: turquoise
magenta: magenta
beige: beige beiges
gold: doré*
silver: argenté*
""",
        "| e s es",
    ),
    table(
        """
top: haut supérieur*
bottom: bas inférieur*
left: gauche
right: droite droit
centre: centre milieu central*
corner: coin coins
""",
        "| e s es",
    ),
    words_in("""
numéro numéros nombre nombres chiffre chiffres prix coûte coûtent coût total montant somme taxe tva écrit écrite écrits
écrites écriture lit lire texte mot mots lettre lettres nom noms titre étiquette légende date année mois téléphone fax
adresse pourcentage valeur valeurs imprimé imprimée signature facture reçu code combien indique
"""),
    ("que dit", "qui dit", "quelle heure", "quelle annee", "sous total"),
    _numbers(
        """
1: premier premiers première premières 1er 1re 1ère
2: deuxième* second* 2e 2ème
3: troisième* 3e 3ème
4: quatrième* 4e 4ème
5: cinquième* 5e 5ème
6: sixième* 6e 6ème
7: septième*
8: huitième*
9: neuvième*
10: dixième*
-1: dernier dernière derniers dernières
""",
        "| e s es",
    ),
    words_in("ligne lignes"),
    words_in("""
le la les l d un une des du de au aux est sont était que quoi qui quel quelle quels quelles où dans sur sous avec et ou
ce cette ces cet il elle y a t en à pour par combien comment quand pourquoi montre trouve c qu son sa ses se
"""),
)

SPANISH = Language(
    "Spanish",
    table(
        """
red: roj*
orange: naranja naranjas anaranjad*
yellow: amarill*
green: verde verdes
blue: azul azules celeste celestes
purple: morad* violeta púrpura lila
pink: rosa rosas rosad*
brown: marrón marrones
black: negr*
white: blanc*
grey: gris grises
cyan: cian
turquoise: turquesa
magenta: magenta
beige: beige
gold: dorad*
silver: platead*
""",
        "o a os as",
    ),
    table(
        """
top: arriba superior superiores
bottom: abajo inferior inferiores
left: izquierd*
right: derecha derecho
centre: centro medio central centrales
corner: esquina esquinas rincón
""",
        "o a os as",
    ),
    words_in("""
número números cifra cifras precio precios cuesta cuestan costo coste total subtotal importe monto suma impuesto
impuestos iva escrito escrita escritos escritas dice dicen lee leer texto palabra palabras letra letras nombre nombres
título etiqueta leyenda fecha año años mes teléfono fax dirección porcentaje valor valores impreso impresa firma factura
recibo código cuánto cuánta cuántos cuántas matrícula
"""),
    ("que pone", "se llama", "que hora"),
    _numbers(
        """
1: primer primer*
2: segund*
3: tercer tercer*
4: cuart*
5: quint*
6: sext*
7: séptim*
8: octav*
9: noven*
10: décim*
-1: últim*
""",
        "o a os as",
    ),
    words_in("línea líneas renglón renglones"),
    words_in("""
el la los las lo un una unos unas de del al a en es son está están era que qué cuál cuáles quién dónde cómo cuándo por
para con y o su sus este esta estos estas ese esa hay tiene se muestra encuentra hay
"""),
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH)
KNOWN = "English, German, French, Spanish and Chinese"
