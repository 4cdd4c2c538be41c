def total = 0
def take = { n, k -> if (k > n) throw new IllegalArgumentException("" + k); n - k }
(0..<200).each { i ->
    try { total += [take(i, 3), take(i, i % 7)].findAll { it % 2 }.sum() ?: 0 }
    catch (IllegalArgumentException e) { total -= e.message.toInteger() }
}
println total
