/* Arithmetic, bits and pages (include/linux/{minmax,align,math,bitops,log2}.h, asm/page.h). */
#ifndef POOLPROOF_MATH_H
#define POOLPROOF_MATH_H

#define pp_choose(x, op, y) ({ typeof(x) pp_x = (x); typeof(y) pp_y = (y); pp_x op pp_y ? pp_x : pp_y; })
#define min(x, y)	pp_choose(x, <, y)
#define max(x, y)	pp_choose(x, >, y)
#define min3(x, y, z)	min(min(x, y), z)
#define max3(x, y, z)	max(max(x, y), z)
#define min_t(type, x, y) min((type)(x), (type)(y))
#define max_t(type, x, y) max((type)(x), (type)(y))
#define umin(x, y)	min_t(unsigned long, x, y)
#define umax(x, y)	max_t(unsigned long, x, y)
#define clamp(v, low, high) min(max(v, low), high)
#define clamp_t(type, v, low, high) min_t(type, max_t(type, v, low), high)
#define min_not_zero(x, y) ({ typeof(x) pp_a = (x); typeof(y) pp_b = (y); \
	pp_a == 0 ? pp_b : pp_b == 0 ? pp_a : min(pp_a, pp_b); })
#define swap(a, b)	do { typeof(a) pp_t = (a); (a) = (b); (b) = pp_t; } while (0)
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define ALIGN(x, a)	(((x) + ((typeof(x))(a) - 1)) & ~((typeof(x))(a) - 1))
#define ALIGN_DOWN(x, a) ((x) & ~((typeof(x))(a) - 1))
#define IS_ALIGNED(x, a) (((x) & ((typeof(x))(a) - 1)) == 0)
#define PTR_ALIGN(p, a)	((typeof(p))ALIGN((unsigned long)(p), a))
#define round_up(x, y)	ALIGN(x, y)
#define round_down(x, y) ALIGN_DOWN(x, y)
#define div64_u64(n, d)	((u64)(n) / (u64)(d))
#define roundup(x, y)	(DIV_ROUND_UP(x, y) * (y))
#define check_add_overflow(a, b, d) __builtin_add_overflow(a, b, d)
#define check_mul_overflow(a, b, d) __builtin_mul_overflow(a, b, d)

#define BITS_PER_BYTE	8
#define BITS_PER_LONG	(8 * (int)sizeof(long))
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define GENMASK(h, l)	((~0UL << (l)) & (~0UL >> (BITS_PER_LONG - 1 - (h))))
#define BITS_TO_LONGS(n) DIV_ROUND_UP(n, BITS_PER_LONG)
#define BITMAP_SIZE(n)	(BITS_TO_LONGS(n) * sizeof(long))
#define is_power_of_2(n) ((n) != 0 && ((n) & ((n) - 1)) == 0)

static inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline unsigned long __ffs(unsigned long x) { return __builtin_ctzl(x); }
static inline unsigned long __fls(unsigned long x) { return BITS_PER_LONG - 1 - __builtin_clzl(x); }
static inline unsigned long roundup_pow_of_two(unsigned long n) { return n < 2 ? 1 : 1UL << fls64(n - 1); }
static inline unsigned long rounddown_pow_of_two(unsigned long n) { return 1UL << (fls64(n) - 1); }
#define ilog2(n)	(fls64(n) - 1)
#define order_base_2(n)	((n) > 1 ? ilog2((n) - 1) + 1 : 0)

static inline void __set_bit(unsigned long n, unsigned long *map)
{
	map[n / BITS_PER_LONG] |= BIT(n % BITS_PER_LONG);
}

static inline void __clear_bit(unsigned long n, unsigned long *map)
{
	map[n / BITS_PER_LONG] &= ~BIT(n % BITS_PER_LONG);
}

static inline bool test_bit(unsigned long n, const unsigned long *map)
{
	return map[n / BITS_PER_LONG] >> (n % BITS_PER_LONG) & 1;
}

static inline bool __test_and_set_bit(unsigned long n, unsigned long *map)
{
	bool was = test_bit(n, map);

	__set_bit(n, map);
	return was;
}

static inline bool __test_and_clear_bit(unsigned long n, unsigned long *map)
{
	bool was = test_bit(n, map);

	__clear_bit(n, map);
	return was;
}

static inline unsigned long pp_next_bit(const unsigned long *map, unsigned long end, unsigned long at, bool wanted)
{
	while (at < end && test_bit(at, map) != wanted)
		at++;
	return at;
}

#define find_next_bit(map, end, at) pp_next_bit(map, end, at, true)
#define find_next_zero_bit(map, end, at) pp_next_bit(map, end, at, false)
#define find_first_bit(map, end) find_next_bit(map, end, 0)
#define find_first_zero_bit(map, end) find_next_zero_bit(map, end, 0)

/* include/linux/hash.h: the multiplication by the golden ratio. */
static inline u32 hash_64(u64 value, unsigned int bits) { return value * 0x61C8864680B583EBull >> (64 - bits); }
static inline u32 hash_32(u32 value, unsigned int bits) { return value * 0x61C88647u >> (32 - bits); }
#define hash_long(value, bits) hash_64(value, bits)
#define hash_ptr(p, bits) hash_long((unsigned long)(p), bits)

/* Of the call: the machines of one check have pages of different sizes. No constant, therefore. */
#define PAGE_SIZE	(pp_page_size())
#define PAGE_SHIFT	((unsigned int)__builtin_ctzl(PAGE_SIZE))
#define PAGE_MASK	(~(PAGE_SIZE - 1))
#define PAGE_ALIGN(x)	ALIGN(x, PAGE_SIZE)
#define PAGE_ALIGNED(x)	IS_ALIGNED((unsigned long)(x), PAGE_SIZE)
#define offset_in_page(p) ((unsigned long)(p) & ~PAGE_MASK)
#define PFN_UP(x)	(((x) + PAGE_SIZE - 1) >> PAGE_SHIFT)
#define PFN_DOWN(x)	((x) >> PAGE_SHIFT)
#define get_order(n)	((n) <= PAGE_SIZE ? 0 : ilog2((n) - 1) - (int)PAGE_SHIFT + 1)
unsigned long pp_page_size(void) __attribute__((__pure__));

#endif
