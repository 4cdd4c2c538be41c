class Account(object):
    def __init__(self, n):
        self.n = n
    def take(self, k):
        if k > self.n:
            raise ValueError(k)
        self.n -= k
        return self.n
total = 0
for i in range(200):
    a = Account(i)
    try:
        total += sum(x * x for x in [a.take(3), a.take(i % 7)] if x % 2)
    except ValueError as e:
        total -= e.args[0]
print(total)

# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
