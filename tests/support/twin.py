"""Overcooked once more, slowly: dictionaries, one cook after the other, no arrays.

Written from the rule book and not from `rules.py`, so that the two can be compared.
"""

import itertools

PILES = {"O": "onion", "T": "tomato", "D": "dish"}
STEP = {"U": (0, -1), "D": (0, 1), "R": (1, 0), "L": (-1, 0)}
BARRED = {"any": (), "chef": ("dish",), "waiter": ("onion", "tomato")}


class Kitchen:
    def __init__(self, grid, num_agents, pot_size=3, cook_time=20, roles=None, slippery=()):
        self.pot_size, self.cook_time, self.slippery = pot_size, cook_time, set(slippery)
        self.roles = roles or ["any"] * num_agents
        self.tile = {(x, y): c for y, row in enumerate(grid) for x, c in enumerate(row)}
        self.place = {}
        for where, symbol in self.tile.items():
            if symbol.isdigit():
                self.tile[where] = "."
                if int(symbol) <= num_agents:
                    self.place[int(symbol) - 1] = where
        self.seats = range(num_agents)
        self.last = dict.fromkeys(self.seats)
        self.facing = dict.fromkeys(self.seats, "U")
        self.held = dict.fromkeys(self.seats)
        self.lying = {}
        self.pots = {where: [] for where, tile in self.tile.items() if tile == "P"}
        self.tick = dict.fromkeys(self.pots, -1)
        self.taken = {"onion": 0, "tomato": 0, "dish": 0}
        self.served = []

    def as_played(self, letters, sticks, slips):
        """Letters after chance: who repeats the last one, and which way the floor would send."""
        played = {}
        for seat in self.seats:
            letter = letters[seat]
            if sticks[seat] and self.last[seat]:
                letter = self.last[seat]
            self.last[seat] = letter
            if letter in STEP and self.place[seat] in self.slippery and slips[seat]:
                letter = slips[seat]
            played[seat] = letter
        return played

    def step(self, letters):
        """Play one letter per seat; return deliveries, shaped rewards and event names per seat."""
        events = {seat: set() for seat in self.seats}
        shaped = dict.fromkeys(self.seats, 0)
        before = sum(1 for contents in self.pots.values() if contents)
        served = len(self.served)
        for seat in self.seats:
            if letters[seat] == "I":
                shaped[seat] = self.interact(seat, before, events[seat])
        self.move(letters, events)
        for where, contents in self.pots.items():
            if len(contents) == self.pot_size and self.tick[where] < self.cook_time:
                self.tick[where] = max(self.tick[where], 0) + 1
        return len(self.served) - served, shaped, events

    def interact(self, seat, pots_in_use, events):
        dx, dy = STEP[self.facing[seat]]
        where = (self.place[seat][0] + dx, self.place[seat][1] + dy)
        tile, hand = self.tile[where], self.held[seat]
        if tile == "X":
            if hand and where not in self.lying:
                self.lying[where], self.held[seat] = hand, None
                events.add(("put", name(hand), "counter"))
            elif not hand and where in self.lying and self.may_take(seat, self.lying[where]):
                self.held[seat] = self.lying.pop(where)
                events.add(("pickup", name(self.held[seat]), "counter"))
            else:
                events.add("idle_interact_counter")
        elif tile in PILES and not hand and self.may_take(seat, PILES[tile]):
            thing = PILES[tile]
            plates = sum(1 for other in self.held.values() if other == "dish")
            self.held[seat] = thing
            self.taken[thing] += 1
            events.add(("pickup", thing, "pile"))
            if tile == "D" and plates < pots_in_use and "dish" not in self.lying.values():
                events.add("useful_plate_pickup")
                return 3
        elif tile == "P" and hand:
            pot = self.pots[where]
            if hand in ("onion", "tomato") and len(pot) < self.pot_size:
                pot.append(hand)
                self.held[seat] = None
                events.add("placement_in_pot")
                return 3
            if hand == "dish" and self.tick[where] == self.cook_time:
                self.held[seat] = ("soup", *pot)
                self.pots[where], self.tick[where] = [], -1
                events.add("soup_pickup")
                return 5
        elif tile == "S" and hand:
            if name(hand) == "soup":
                self.served.append(hand)
                self.held[seat] = None
                events.add("delivery")
        else:
            events.add("idle_interact_empty")
        return 0

    def may_take(self, seat, thing):
        return name(thing) not in BARRED[self.roles[seat]]

    def move(self, letters, events):
        wants, old_facing = {}, dict(self.facing)
        for seat in self.seats:
            wants[seat] = self.place[seat]
            if letters[seat] in STEP:
                self.facing[seat] = letters[seat]
                dx, dy = STEP[letters[seat]]
                target = (self.place[seat][0] + dx, self.place[seat][1] + dy)
                if self.tile[target] == ".":
                    wants[seat] = target
        stays = {seat for seat in self.seats if wants[seat] == self.place[seat]}
        for a, b in itertools.combinations(self.seats, 2):
            if wants[a] == wants[b]:
                stays |= {a, b}
        stays |= rings(wants, self.place)
        changed = True
        while changed:
            blocked = {
                s for s in self.seats if wants[s] in [self.place[t] for t in stays if t != s]
            }
            changed = not blocked <= stays
            stays |= blocked
        for seat in self.seats:
            moved = seat not in stays
            if moved:
                self.place[seat] = wants[seat]
            if letters[seat] == "S":
                events[seat].add("stay")
            elif letters[seat] in STEP:
                events[seat].add("move")
                if not moved and old_facing[seat] == self.facing[seat]:
                    events[seat].add("idle_move")

    def describe(self):
        return {
            "players": [[*self.place[s], self.facing[s], name(self.held[s])] for s in self.seats],
            "pots": {
                f"{x},{y}": [len(contents), self.tick[x, y]]
                for (x, y), contents in self.pots.items()
            },
            "counters": sorted([x, y, name(thing)] for (x, y), thing in self.lying.items()),
        }


def name(thing):
    return thing[0] if isinstance(thing, tuple) else thing


def rings(wants, place):
    """Seats that chase each other in a ring: two who swap, or more."""
    at = {where: seat for seat, where in place.items()}
    caught = set()
    for first in wants:
        chain = [first]
        while (ahead := at.get(wants[chain[-1]])) is not None and ahead not in chain:
            chain.append(ahead)
        if ahead == first and len(chain) > 1:
            caught |= set(chain)
    return caught


EVENT_NAMES = {
    ("put", "onion", "counter"): "put_onion_on_counter",
    ("put", "dish", "counter"): "put_plate_on_counter",
    ("put", "soup", "counter"): "put_soup_on_counter",
    ("pickup", "onion", "counter"): "pickup_onion_from_counter",
    ("pickup", "onion", "pile"): "pickup_onion_from_pile",
    ("pickup", "dish", "counter"): "pickup_plate_from_counter",
    ("pickup", "dish", "pile"): "pickup_plate_from_pile",
    ("pickup", "soup", "counter"): "pickup_soup_from_counter",
}
