"""A thesaurus for photographs, written by hand: what the things of COCO are called, their parts, and kinds of ground.

The tables of `photo_things`, which takes questions apart by them.
"""

from __future__ import annotations

from dataclasses import dataclass

# The detector's 90 outputs; those of which no example was ever shown to it are left out of `THINGS`.
CLASSES = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light"),
    *("fire hydrant", "street sign", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep"),
    *("cow", "elephant", "bear", "zebra", "giraffe", "hat", "backpack", "umbrella", "shoe", "eye glasses"),
    *("handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite", "baseball bat"),
    *("baseball glove", "skateboard", "surfboard", "tennis racket", "bottle", "plate", "wine glass", "cup", "fork"),
    *("knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza"),
    *("donut", "cake", "chair", "couch", "potted plant", "bed", "mirror", "dining table", "window", "desk"),
    *("toilet", "door", "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster"),
    *("sink", "refrigerator", "blender", "book", "clock", "vase", "scissors", "teddy bear", "hair drier"),
    "toothbrush",
)

# Class: what else it is called.
NAMES = {
    "person": "people man men woman women lady ladies gentleman boy boys girl girls child children kid kids baby "
    "toddler guy human figure pedestrian walker passer-by crowd player athlete worker driver passenger rider police "
    "policeman officer bride groom skier skateboarder surfer snowboarder "
    "skater dancer runner jogger swimmer climber worker chef "
    "waiter tourist student teacher soldier guard gardener goalkeeper tennis-player spectator family couple couples",
    "bicycle": "bike bikes cycle tandem",
    "car": "taxi cab sedan jeep automobile auto suv hatchback convertible limousine racecar",
    "motorcycle": "motorbike moped scooter motor-scooter",
    "airplane": "aeroplane plane jet aircraft airliner biplane",
    "bus": "coach minibus trolleybus double-decker",
    "train": "locomotive tram railway carriage subway streetcar engine",
    "truck": "lorry van pickup trailer ambulance minivan fire-engine",
    "boat": "ship yacht sailboat ferry canoe kayak vessel dinghy gondola barge",
    "traffic light": "stoplight traffic-signal semaphore",
    "fire hydrant": "hydrant",
    "stop sign": "stopsign",
    "parking meter": "meter",
    "bench": "benches pew",
    "bird": "birds pigeon gull seagull duck goose geese swan parrot eagle owl hen chicken rooster crow sparrow penguin "
    "flamingo ostrich peacock mallard heron stork",
    "cat": "kitten kitty",
    "dog": "puppy hound terrier retriever spaniel poodle corgi collie bulldog",
    "horse": "pony mare stallion foal donkey mule camel",
    "sheep": "lamb ram ewe goat flock",
    "cow": "cattle bull calf ox oxen buffalo bison yak deer antelope moose",
    "elephant": "mammoth",
    "bear": "panda grizzly",
    "zebra": "zebras",
    "giraffe": "giraffes",
    "backpack": "rucksack knapsack",
    "umbrella": "parasol sunshade",
    "handbag": "purse clutch tote satchel",
    "tie": "necktie bow-tie",
    "suitcase": "luggage baggage briefcase trunk",
    "frisbee": "disc",
    "skis": "ski",
    "snowboard": "snowboards",
    "sports ball": "ball football soccer-ball basketball volleyball baseball tennis-ball golf-ball",
    "kite": "kites paraglider",
    "baseball bat": "bat",
    "baseball glove": "mitt",
    "skateboard": "longboard",
    "surfboard": "bodyboard paddleboard",
    "tennis racket": "racket racquet",
    "bottle": "bottles flask thermos",
    "wine glass": "goblet wineglass champagne-glass",
    "cup": "mug glass tumbler beaker cups teacup tin-can can jar",
    "fork": "forks",
    "knife": "knives dagger",
    "spoon": "spoons ladle",
    "bowl": "bowls basin dish",
    "banana": "bananas",
    "apple": "apples",
    "sandwich": "burger hamburger toast bagel wrap",
    "orange": "oranges mandarin tangerine lemon citrus",
    "broccoli": "cauliflower",
    "carrot": "carrots",
    "hot dog": "hotdog sausage",
    "pizza": "pizzas",
    "donut": "doughnut donuts doughnuts",
    "cake": "cupcake pastry muffin pie dessert",
    "chair": "seat armchair stool highchair wheelchair recliner",
    "couch": "sofa settee loveseat futon",
    "potted plant": "plant houseplant flower flowers plants flowerpot pot bush bouquet",
    "bed": "beds cot crib mattress bunk",
    "dining table": "table desk coffee-table tables",
    "toilet": "lavatory loo urinal",
    "tv": "television monitor screen telly display",
    "laptop": "computer notebook",
    "mouse": "trackball",
    "remote": "controller remote-control gamepad",
    "keyboard": "keypad",
    "cell phone": "phone cellphone mobile smartphone telephone iphone",
    "microwave": "microwave-oven",
    "oven": "stove cooker range hob stovetop",
    "toaster": "toasters",
    "sink": "washbasin washstand",
    "refrigerator": "fridge freezer",
    "book": "books magazine notebook novel album",
    "clock": "clocks clockface timepiece watch alarm-clock",
    "vase": "vases urn pitcher jug",
    "scissors": "shears",
    "teddy bear": "teddy doll toy plush stuffed-animal",
    "hair drier": "hairdryer hair-dryer blow-dryer",
    "toothbrush": "toothbrushes",
}

# Words for several things together.
ANIMALS = "bird cat dog horse sheep cow elephant bear zebra giraffe"
VEHICLES = "bicycle car motorcycle airplane bus train truck boat"
GROUPS = {
    "animal animals creature pet pets beast livestock wildlife mammal": ANIMALS,
    "vehicle vehicles traffic transport": VEHICLES,
    "cyclist bicyclist cyclists bicyclists biker motorcyclist": "bicycle person motorcycle",
    "food meal snack lunch dinner breakfast": "sandwich pizza cake donut hot_dog broccoli carrot banana apple orange "
    "bowl",
    "fruit fruits": "banana apple orange",
    "vegetable vegetables salad": "broccoli carrot",
    "furniture": "chair couch bed dining_table",
    "drink drinks beverage coffee tea beer wine juice": "cup wine_glass bottle",
    "cutlery silverware utensil utensils": "fork knife spoon",
    "tableware crockery dishes plate plates": "bowl cup fork knife spoon dining_table pizza",
    "appliance appliances": "microwave oven toaster refrigerator",
    "electronics device gadget": "tv laptop cell_phone keyboard mouse remote",
    "bag bags": "handbag backpack suitcase",
    "board": "surfboard skateboard snowboard",
    "van minivan": "truck car bus",
    "cart carriage wagon rickshaw carts trolley": "bicycle truck motorcycle bench",
    "tractor bulldozer excavator": "truck car",
    "helicopter drone glider": "airplane kite",
    "computer pc": "laptop tv keyboard mouse",
    "sign signs signboard roadsign billboard": "stop_sign traffic_light parking_meter",
    "lamppost streetlight streetlamp lantern": "traffic_light",
    "monkey kangaroo rabbit squirrel fox wolf lion tiger leopard pig rhino hippo raccoon": "dog cat bear cow horse",
    "fish dolphin whale shark turtle": "boat bird surfboard",
    "cabinet cabinetry cupboard wardrobe drawer drawers dresser": "oven refrigerator microwave sink tv",
}

# Parts and neighbours: words, the thing, and where of its box (left, top, right, bottom; 0–1, beyond it is outside).
# The places are those of an upright person and of furniture as it stands: a judgement, not measured.
PARTS: tuple[tuple[str, str, tuple[float, float, float, float]], ...] = (
    (
        "hat cap helmet helmets beanie hood headscarf headband crown turban headgear hats",
        "person",
        (0.1, -0.06, 0.9, 0.17),
    ),
    ("hair wig ponytail braid haircut", "person", (0.1, -0.02, 0.9, 0.22)),
    ("head heads skull", "person", (0.1, -0.03, 0.9, 0.2)),
    (
        "face faces eye eyes glasses sunglasses eyeglasses spectacles goggles nose mouth beard moustache smile ear "
        "ears earring earrings mask cigarette",
        "person",
        (0.1, 0.0, 0.9, 0.19),
    ),
    ("scarf necklace collar neck bow bowtie pendant", "person", (0.1, 0.1, 0.9, 0.36)),
    ("tie necktie badge lanyard", "person", (0.2, 0.14, 0.8, 0.5)),
    (
        "shirt blouse t-shirt tshirt tee top sweater jumper pullover cardigan vest sweatshirt hoodie jersey bodysuit "
        "bra blazer waistcoat chest torso tank-top shirts logo",
        "person",
        (0.0, 0.13, 1.0, 0.55),
    ),
    ("jacket coat cape suit raincoat anorak parka poncho cloak robe gown apron", "person", (0.0, 0.13, 1.0, 0.65)),
    ("dress dresses frock romper jumpsuit overalls uniform costume clothes clothing", "person", (0.0, 0.14, 1.0, 0.8)),
    ("belt waist buckle", "person", (0.1, 0.38, 0.9, 0.56)),
    ("skirt shorts swimwear bikini underwear trunks hips", "person", (0.0, 0.38, 1.0, 0.75)),
    ("trousers pants jeans leggings tights stockings slacks chinos", "person", (0.0, 0.43, 1.0, 0.95)),
    ("leg legs knee knees thigh calves", "person", (0.0, 0.5, 1.0, 0.97)),
    ("sock socks ankle ankles", "person", (0.0, 0.78, 1.0, 0.99)),
    (
        "shoe shoes boot boots heels sandal sandals sneaker sneakers trainers loafers flats pumps wedges clogs "
        "footwear foot feet slippers cleats",
        "person",
        (-0.05, 0.84, 1.05, 1.05),
    ),
    (
        "bag bags purse handbag clutch wallet tote pouch briefcase satchel",
        "person",
        (-0.15, 0.25, 1.15, 0.75),
    ),
    (
        "hand hands glove gloves mitten watch wristwatch bracelet ring wrist finger fingers arm arms sleeve elbow "
        "accessories",
        "person",
        (-0.08, 0.25, 1.08, 0.65),
    ),
    ("skin body", "person", (0.0, 0.0, 1.0, 1.0)),
    ("cane stick crutch", "person", (-0.2, 0.4, 1.2, 1.05)),
    ("wheel wheels tyre tyres tire tires", "car", (0.0, 0.55, 1.0, 1.02)),
    ("wheel wheels tyre tyres tire tires", "bicycle", (0.0, 0.3, 1.0, 1.02)),
    ("wheel wheels tyre tyres tire tires", "motorcycle", (0.0, 0.4, 1.0, 1.02)),
    ("plate licence-plate license-plate number-plate bumper", "car", (0.1, 0.5, 0.9, 1.0)),
    ("headlight headlights taillight", "car", (0.0, 0.3, 1.0, 0.8)),
    ("windscreen windshield", "car", (0.0, 0.0, 1.0, 0.5)),
    ("tail trunk", "elephant", (0.0, 0.0, 1.0, 1.0)),
    ("tail muzzle paw paws fur snout collar", "dog", (0.0, 0.0, 1.0, 1.0)),
    ("tail paw paws whiskers fur", "cat", (0.0, 0.0, 1.0, 1.0)),
    ("saddle mane", "horse", (0.0, 0.0, 1.0, 0.7)),
    ("leash lead", "dog", (-0.5, -0.6, 1.5, 0.6)),
    ("pillow pillows cushion cushions", "bed", (0.0, -0.05, 1.0, 0.55)),
    ("pillow pillows cushion cushions", "couch", (0.0, 0.0, 1.0, 0.8)),
    ("blanket quilt sheet bedspread duvet", "bed", (0.0, 0.1, 1.0, 1.0)),
    ("nightstand headboard bedside", "bed", (-0.25, -0.15, 1.25, 0.55)),
    ("tap taps faucet soap", "sink", (-0.1, -0.5, 1.1, 0.6)),
    ("countertop counter worktop", "sink", (-0.6, -0.1, 1.6, 0.8)),
    ("countertop counter worktop", "oven", (-0.6, -0.2, 1.6, 0.5)),
    ("countertop counter worktop", "microwave", (-0.8, 0.4, 1.8, 1.6)),
    ("shelf shelves bookcase bookshelf", "book", (-0.2, -0.2, 1.2, 1.2)),
    ("lamp lampshade nightlight", "bed", (-0.3, -0.5, 1.3, 0.3)),
    ("lamp lampshade", "couch", (-0.3, -0.6, 1.3, 0.3)),
    ("painting picture pictures frame poster photo portrait artwork", "couch", (-0.2, -1.4, 1.2, 0.1)),
    ("painting picture pictures frame poster photo portrait artwork", "bed", (-0.2, -0.9, 1.2, 0.2)),
    ("tablecloth placemat napkin", "dining table", (0.0, 0.0, 1.0, 1.0)),
    ("carpet rug mat", "couch", (-0.3, 0.6, 1.3, 1.6)),
    ("basket bin waste-bin trash rubbish wastebasket bucket box boxes", "chair", (-0.8, 0.3, 1.8, 1.2)),
    ("basket bin waste-bin trash rubbish wastebasket bucket box boxes", "toilet", (-0.8, 0.3, 1.8, 1.2)),
    ("candle candles", "dining table", (0.0, -0.3, 1.0, 0.6)),
    ("rider jockey", "horse", (0.1, -0.5, 0.9, 0.6)),
    ("net court", "tennis racket", (-2.0, -1.0, 3.0, 2.0)),
    ("sail mast", "boat", (0.0, -0.5, 1.0, 0.8)),
    ("wing wings propeller", "airplane", (0.0, 0.0, 1.0, 1.0)),
    ("keys key", "keyboard", (0.0, 0.0, 1.0, 1.0)),
)


# Ground without an outline, and things that no detector here knows: how high it lies (0 top – 1 bottom) and how far
# that reaches, what colour (of `lexical.COLOURS`), how busy (−1 smooth – 1 busy), and whether it is upright (poles).
@dataclass(frozen=True)
class Ground:
    height: float
    reach: float
    colours: tuple[str, ...] = ()
    busy: float = 0.0
    upright: bool = False


GROUNDS = {
    "sky cloud clouds heaven": Ground(0.0, 0.3, ("blue", "white", "cyan"), -1),
    "road street lane tarmac asphalt highway runway crossing crosswalk": Ground(0.85, 0.22, ("grey",), -1),
    "pavement sidewalk footpath kerb curb path walkway": Ground(0.75, 0.2, ("grey", "beige"), -0.5),
    "ground floor soil dirt earth sand beach snow flooring": Ground(0.95, 0.25, (), -1),
    "grass lawn field meadow pitch": Ground(0.85, 0.3, ("green",)),
    "water sea river lake ocean wave waves pool": Ground(0.7, 0.3, ("blue", "teal", "grey"), -0.5),
    "tree trees forest foliage leaves hedge palm palms vegetation branch": Ground(0.3, 0.3, ("green",), 1),
    "building buildings house houses facade tower skyscraper church shop store roof": Ground(0.3, 0.28, (), 0.5),
    "window windows curtain curtains blind blinds shutter": Ground(0.3, 0.25, ("white",), 0.3),
    "wall walls": Ground(0.3, 0.3, (), -0.5),
    "ceiling": Ground(0.0, 0.2, (), -1),
    "door doors doorway gate entrance": Ground(0.45, 0.3, (), 0, True),
    "pole poles post posts column columns lamppost streetlamp streetlight mast pillar": Ground(
        0.38, 0.2, (), 0.3, True
    ),
    "sign signs signboard roadsign billboard signpost symbol": Ground(
        0.35, 0.16, ("red", "blue", "yellow", "white"), 0.6
    ),
    "fence fences railing guardrail barrier wall-rail": Ground(0.58, 0.14, (), 0.7),
    "mountain mountains hill hills": Ground(0.35, 0.2),
    "bridge": Ground(0.45, 0.2, (), 0.3),
    "light lights lamp lamps lampshade chandelier": Ground(0.25, 0.25, ("white", "yellow")),
    "mirror painting picture pictures frame poster photo portrait artwork": Ground(0.35, 0.25, (), 0.2),
    "heater radiator": Ground(0.6, 0.2, ("white",), 0.5),
    "cabinet cabinetry cupboard shelf shelves bookcase bookshelf wardrobe drawer": Ground(0.4, 0.3, ("brown", "white")),
    "carpet rug mat": Ground(0.9, 0.25),
    "flag banner": Ground(0.25, 0.2, ("red", "blue", "white"), 0.4),
    "horizon distance background": Ground(0.45, 0.12),
    "foreground front": Ground(0.9, 0.25),
}
