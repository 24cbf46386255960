# A program that has every construct of Python; `fuzz.rs` changes it.
from a.b import (c as d, e,)
import f.g as h

@decorated(x, *y, z=1, **w)
async def outer[T: int = str, *Ts, **P](a, /, b: T = 3, *c: *Ts, d, e=1, **g) -> None:
    """Text."""
    async for i, *j in k, l: await m
    async with (n as o, p as (q, r[0])): return *s, t
    match u, -v:
        case [1, -2.5 + 3j, *_, 'a' "b"] | {'k': w, **x} | C(y, z=None) as aa if aa > (1): pass
        case (b.c), *_: yield
class A(B, metaclass=M): x: int = yield
try:
    x = [y async for y in z if (w := y)] + {*a, b} | {**c, 'd': {e: f for e, f in g}}
except* (A, B) as e: raise x from y
try: del a, (b.c, [d[0]])
except A: global g; nonlocal h
else: assert x, f"{a!r:>{width}} {{}} {b=} {c['d']:%Y-%m} {(lambda x, *y, z=1: x)(1)}" 'e'
finally:
	t = t"a{b}" ; type X[T] = list[T]
if not a < b <= c != d is not e not in f: x = 1 if y else 0xFF_0 ** -1.5e-3j
elif x[1:2, ::3, ..., *y]: \
    x @= ~y // z << 2 & 3 ^ 4
else:
    while True: break
    else: continue
with (a, b) as c, (yield): u = rb'\x' b"\n"; v = '\x41\u0042\
' '''c'''
