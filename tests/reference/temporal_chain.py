"""Chains written from TMP-1 to TMP-5: a list of slots for each chain."""


class Chain:
    def __init__(self):
        self.n = 0
        self.chains = []  # lists of two or more slots
        self.sessions = {}
        self.times = {}

    def resize(self, n):
        self.n = max(self.n, n)

    def chain_of(self, slot):
        return next((chain for chain in self.chains if slot in chain), None)

    def take_out(self, slot):
        chain = self.chain_of(slot)
        if chain is not None:
            chain.remove(slot)
            self.chains = [chain for chain in self.chains if len(chain) > 1]

    def refuses(self, current, prev, session):
        if current >= self.n or prev >= self.n:
            return IndexError
        known = self.sessions.get(prev, 0)
        if current == prev or (
            known != session and (known != 0 or self.chain_of(prev) is not None)
        ):
            return ValueError
        return None

    def link(self, current, prev, session, time):
        assert self.refuses(current, prev, session) is None
        self.take_out(current)
        chain = self.chain_of(prev)
        if chain is None:
            chain = [prev]
            self.chains.append(chain)
        chain.insert(chain.index(prev) + 1, current)
        self.sessions[prev] = self.sessions[current] = session
        self.times[current] = time

    def neighbours(self, slot):
        chain = [-1, *(self.chain_of(slot) or [slot]), -1]
        place = chain.index(slot)
        return chain[place - 1], chain[place + 1]

    def follow(self, start, max_hops, backward=False):
        chain = self.chain_of(start) or [start]
        place = chain.index(start)
        return (chain[:place][::-1] if backward else chain[place + 1 :])[:max_hops]

    def remove(self, slots):
        for slot in slots:
            self.take_out(slot)
            self.sessions.pop(slot, None)
            self.times.pop(slot, None)

    def prune(self, before, slots):
        pruned = 0
        for slot in slots:
            if self.chain_of(slot) is not None and 0 < self.times.get(slot, 0) < before:
                self.take_out(slot)
                pruned += 1
        return pruned
