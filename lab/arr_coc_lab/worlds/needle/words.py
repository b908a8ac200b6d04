"""The word lists of Needle World."""

from __future__ import annotations


def _words(text: str, separator: str = " ") -> tuple[str, ...]:
    return tuple(text.split(separator))


FIRST_NAMES = _words(
    "Ada Alma Anna Arno Aya Ben Bruno Carla Chloe Clara Dario David Dora Edda Eli Emma Enzo Eva Farid Fay Finn Flora "
    "Gita Greta Hana Hugo Ida Ilse Ines Ivan Jack Jana Jonas Juno Kai Kira Lara Leo Lina Luca Maja Mara Max Milo Mina "
    "Nadia Nils Nora Olga Omar Oscar Paul Petra Quinn Rafa Rosa Sam Selma Theo Tilda Uma Vera Yara Zoe"
)
LAST_NAMES = _words(
    "Abel Adler Bach Baker Berg Blum Brook Cole Costa Cruz Dahl Diaz Duke Eklund Faber Fox Frank Gomez Grant Gray Haas "
    "Hill Holm Ito Jansen Jung Kahn Keller King Klein Koch Kumar Lake Lang Lee Lopez Lund Marsh Meyer Moore Nash Novak "
    "Okoye Olsen Park Perez Pohl Quist Reed Rossi Sato Shaw Silva Stone Tanaka Twain Unger Vega Vogel Wang West Wolf "
    "Young Zhou"
)
CITIES = _words(
    "Accra Athens Basel Bergen Berlin Bogota Boston Bremen Cairo Cork Dakar Delhi Denver Dublin Geneva Ghent Hanoi "
    "Izmir Kyoto Lagos Leeds Lille Lima Lisbon London Lyon Madrid Malmo Milan Nantes Naples Osaka Oslo Ottawa Paris "
    "Perth Porto Prague Quito Riga Rome Seoul Sofia Tampa Tokyo Turin Vienna Zagreb"
)
SYLLABLES_ONE = _words(
    "Ba Be Bi Bo Bu Ca Ce Co Cu Da De Di Do Du Fa Fe Fi Fo Ga Ge Go Ha He Hi Ho Ja Jo Ka Ke Ki Ko La Le Li Lo Lu Ma Me "
    "Mi Mo Mu Na Ne Ni No Pa Pe Pi Po Qua Ra Re Ri Ro Ru Sa Se Si So Ta Te Ti To Va Vi Wa Xe Ya Za Zu"
)
SYLLABLES_TWO = _words(
    "ba be bi bo da de di do fa fi ga go ha ja ka ke ki ko la le li lo lu ma me mi mo na ne ni no pa pe po ra re ri ro "
    "sa se si so ta te ti to va ve vi wa xa ya ze zo"
)
SYLLABLES_THREE = _words(
    "ck d f g k l ll m n nd ng nk ns p r rd rk rn rt s sh ss st t th x z by dy ga la na ra ta ",
    separator=" ",
)
MONTHS = _words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
ITEMS = _words(
    "apple bagel banana beans bread butter cake candle carrot cheese cherry cider coffee cookie corn cream dates eggs "
    "figs fish flour garlic ginger grapes ham honey jam juice kiwi lemon lentils lime mango melon milk mint muffin "
    "nuts oats olives onion orange pasta peach pear pepper pie plum potato rice salad salt soap soup spinach sugar tea "
    "toast tomato tuna vanilla walnut water yogurt"
)
SHOPS = _words(
    "Corner Market,Green Grocer,Daily Bread,Harbour Foods,City Cafe,The Larder,Sunny Deli,Old Mill Shop,Fresh & Co,"
    "Village Store,Blue Door Cafe,North Pantry,Station Kiosk,Garden Shop,Tea House,Market Hall",
    separator=",",
)
FORM_TITLES = _words(
    "Order Form,Invoice,Registration,Membership,Delivery Note,Patient Record,Travel Claim,Job Sheet,Application,"
    "Visitor Pass,Service Report,Rental Form,Class List,Lab Report,Expense Form,Repair Ticket",
    separator=",",
)
NOTES = _words(
    "Please keep this copy.,Thank you.,Office use only.,See back for terms.,All fields required.,Page 1 of 1,"
    "Sign and return.,Valid for 30 days.",
    separator=",",
)

# Field names with the kind of thing that is written beside them; the kinds are those of `content.KINDS`.
FIELDS = {
    "name": ("name", "owner", "client", "agent", "driver", "guest", "teacher", "contact", "manager", "patient"),
    "number": ("number", "account", "badge", "meter", "ticket", "page", "room", "serial", "weight", "member"),
    "phone": ("phone", "fax", "mobile", "office phone"),
    "date": ("date", "due date", "birth date", "start date", "end date", "expiry", "issued"),
    "amount": ("total", "price", "fee", "deposit", "balance", "tax", "discount", "refund"),
    "place": ("city", "street", "region", "origin", "branch", "station"),
    "code": ("code", "order no", "invoice no", "plate", "model", "reference", "locker", "flight"),
    "word": ("product", "status", "company", "brand", "project", "team"),
    "time": ("time", "arrival", "departure", "opens", "closes"),
    "percent": ("rate", "score", "share", "interest"),
}
SIGN_WORDS = _words(
    "BAKERY BANK BAR BIKES BOOKS BUS CAFE CAMERA CINEMA CLINIC COFFEE DENTAL DOCK EXIT FARM FERRY FISH FLOWERS GALLERY "
    "GARAGE GARDEN GATE HARBOR HOTEL HOUSE KEYS LIBRARY MARKET METRO MOTEL MUSEUM MUSIC OPEN OPTICS PARK PHARMACY "
    "PIZZA PLAZA POLICE POOL POST SALON SCHOOL SHOES SHOP STATION STOP STUDIO SUSHI TAXI TEA THEATRE TICKETS TOOLS "
    "TOYS TRAIN TUNNEL VIDEO WATCH WINE YOGA ZOO"
)
CHART_SETS = (
    _words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
    _words("Mon Tue Wed Thu Fri Sat Sun Avg Min Max Day Eve"),
    _words("Tea Milk Rice Corn Salt Fish Eggs Oats Jam Nuts Figs Pie"),
    _words("Oslo Rome Lima Riga Kyoto Cairo Perth Delhi Quito Milan Lyon Bern"),
    _words("Anna Ben Carl Dora Emma Finn Gita Hugo Ida Jack Kira Leo"),
    _words("2011 2012 2013 2014 2015 2016 2017 2018 2019 2020 2021 2022"),
)
CHART_TITLES = _words(
    "Sales,Visitors,Rainfall,Orders,Output,Members,Exports,Tickets,Energy use,Downloads,Harvest,Traffic,Income,Calls,"
    "Deliveries,Score",
    separator=",",
)
INGREDIENTS = _words(
    "salt corn oil sugar rice wheat oats cocoa milk nuts honey yeast soy garlic onion pepper paprika cheese lemon "
    "butter barley sesame vanilla tomato"
)
SNACKS = _words(
    "Crispo Zappy Munchy Tasti Golden Rocket Sunny Tiger Bites Jumbo Pop Crunch Nutty Salto Momo Fizz Lumo Kiko Rondo "
    "Bravo Domino Panda Yummy Chipz"
)
