/* Messages (include/linux/{printk,dev_printk,bug,sysfs}.h). */
#ifndef POOLPROOF_PRINT_H
#define POOLPROOF_PRINT_H

#define KERN_SOH	"\001"
#define KERN_EMERG	KERN_SOH "0"
#define KERN_ALERT	KERN_SOH "1"
#define KERN_CRIT	KERN_SOH "2"
#define KERN_ERR	KERN_SOH "3"
#define KERN_WARNING	KERN_SOH "4"
#define KERN_NOTICE	KERN_SOH "5"
#define KERN_INFO	KERN_SOH "6"
#define KERN_DEBUG	KERN_SOH "7"

/* The kernel's formats are not those of the C library: %pad takes the address of an address. */
int printk(const char *format, ...);
int scnprintf(char *buffer, size_t size, const char *format, ...);
int sysfs_emit(char *page, const char *format, ...);
int sysfs_emit_at(char *page, int at, const char *format, ...);
#define snprintf scnprintf
ssize_t strscpy(char *to, const char *from, size_t size);
ssize_t strscpy_pad(char *to, const char *from, size_t size);

enum { DUMP_PREFIX_NONE, DUMP_PREFIX_ADDRESS, DUMP_PREFIX_OFFSET };
void print_hex_dump(const char *level, const char *prefix, int prefix_type, int row, int group, const void *bytes,
		    size_t length, bool ascii);

#define pr_err(format, ...) printk(KERN_ERR format, ##__VA_ARGS__)
#define pr_warn(format, ...) printk(KERN_WARNING format, ##__VA_ARGS__)
#define pr_info(format, ...) printk(KERN_INFO format, ##__VA_ARGS__)
#define pr_debug(format, ...) ((void)0)
#define dev_err(dev, format, ...) printk(KERN_ERR "%s: " format, dev_name(dev), ##__VA_ARGS__)
#define dev_warn(dev, format, ...) printk(KERN_WARNING "%s: " format, dev_name(dev), ##__VA_ARGS__)
#define dev_info(dev, format, ...) printk(KERN_INFO "%s: " format, dev_name(dev), ##__VA_ARGS__)
#define dev_dbg(dev, format, ...) ((void)(dev))
#define dev_err_ratelimited dev_err
#define dev_warn_ratelimited dev_warn
#define dev_err_once dev_err

#define WARN(condition, format, ...) \
	({ bool pp_c = (condition); if (pp_c) printk(KERN_ERR "WARNING: " format, ##__VA_ARGS__); pp_c; })
#define WARN_ON(condition) WARN(condition, "%s:%d: %s\n", __FILE__, __LINE__, #condition)
#define WARN_ON_ONCE(condition) WARN_ON(condition)
#define WARN_ONCE	WARN
#define BUG_ON(condition) do { if (unlikely(condition)) pp_bug(__FILE__, __LINE__, #condition); } while (0)
#define BUG()		BUG_ON(true)
void pp_bug(const char *file, int line, const char *condition) __attribute__((__noreturn__));

#endif
