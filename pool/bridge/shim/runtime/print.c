/* Messages, in the kernel's formats (Documentation/core-api/printk-formats.rst). */
#undef snprintf
#include <stdio.h>
#include "runtime.h"

/* Pointers are shown as the machine's addresses, %pad as the DMA address that is pointed to. */
static int pp_pointer(char *buffer, size_t size, const char **format, va_list *arguments)
{
	struct pp_call *call = pp_call();
	const void *pointer = va_arg(*arguments, const void *);

	if (**format == 'a') {
		*format += 1 + ((*format)[1] == 'd' || (*format)[1] == 'p');
		return snprintf(buffer, size, "0x%016llx", (unsigned long long)*(const dma_addr_t *)pointer);
	}
	if (**format == 'x' || **format == 'K')
		*format += 1;
	return snprintf(buffer, size, "%016llx", (unsigned long long)
			(call ? call->host->shown(call->context, pointer) : (uintptr_t)pointer));
}

/* One conversion, with its flags, width and length in `spec`. */
static int pp_convert(char *buffer, size_t size, const char *spec, char kind, va_list *arguments)
{
	bool is_long = strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j') || strchr(spec, 't');

	switch (kind) {
	case '%':
		return snprintf(buffer, size, "%%");
	case 's':
		return snprintf(buffer, size, spec, va_arg(*arguments, const char *));
	case 'c':
		return snprintf(buffer, size, spec, va_arg(*arguments, int));
	default:
		return is_long ? snprintf(buffer, size, spec, va_arg(*arguments, long long))
			       : snprintf(buffer, size, spec, va_arg(*arguments, int));
	}
}

int pp_format(char *buffer, size_t size, const char *format, va_list arguments)
{
	size_t at = 0;
	va_list rest;

	va_copy(rest, arguments);
	while (*format && at + 1 < size) {
		char spec[24];
		size_t length = 0;
		int wrote;

		if (*format != '%') {
			buffer[at++] = *format++;
			continue;
		}
		do {
			if (*format == '*') {
				length += snprintf(spec + length, sizeof(spec) - length, "%d", va_arg(rest, int));
				format++;
			} else {
				spec[length++] = *format++;
			}
		} while (length + 12 < sizeof(spec) && *format && !strchr("%diouxXcsp", *format));
		if (!*format)
			break;
		spec[length++] = *format;
		spec[length] = 0;
		format++;
		if (spec[length - 1] == 'p')
			wrote = pp_pointer(buffer + at, size - at, &format, &rest);
		else
			wrote = pp_convert(buffer + at, size - at, spec, spec[length - 1], &rest);
		at = min(at + wrote, size - 1);
	}
	va_end(rest);
	if (size)
		buffer[at] = 0;
	return at;
}

/* Runs pp_format with the arguments of the function that this stands in, out of the file's own code. */
#define PP_FORMAT(buffer, size, format) ({ \
	va_list pp_arguments; \
	int pp_length; \
	pp_leave_file(); \
	va_start(pp_arguments, format); \
	pp_length = pp_format(buffer, size, format, pp_arguments); \
	va_end(pp_arguments); \
	pp_enter_file(); \
	pp_length; \
})

int scnprintf(char *buffer, size_t size, const char *format, ...)
{
	return PP_FORMAT(buffer, size, format);
}

int sysfs_emit(char *page, const char *format, ...)
{
	return PP_FORMAT(page, PAGE_SIZE, format);
}

int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	if (at < 0 || (size_t)at >= PAGE_SIZE)
		return 0;
	return PP_FORMAT(page + at, PAGE_SIZE - at, format);
}

int printk(const char *format, ...)
{
	struct pp_call *call = pp_call();
	int length, level = 4;
	char line[512], *text = line;

	length = PP_FORMAT(line, sizeof(line), format);
	if (line[0] == KERN_SOH[0] && line[1]) {
		level = line[1] - '0';
		text += 2;
		length -= 2;
	}
	while (length > 0 && text[length - 1] == '\n')
		length--;
	if (call && length > 0) {
		pp_leave_file();
		call->host->print(call->context, level, text, length);
		pp_enter_file();
	}
	return length;
}

void pp_complain(enum pp_complaint kind, const char *format, ...)
{
	struct pp_call *call = pp_call();
	char line[256];
	int length;

	if (!call)
		return;
	length = PP_FORMAT(line, sizeof(line), format);
	pp_leave_file();
	call->host->complain(call->context, kind, line, length);
	pp_enter_file();
}

void pp_bug(const char *file, int line, const char *condition)
{
	struct pp_call *call = pp_call();

	pp_leave_file();
	if (!call)
		__builtin_trap();
	scnprintf(call->words, sizeof(call->words), "BUG at %s:%d: %s", file, line, condition);
	pp_end_call(__builtin_return_address(0));
}

void print_hex_dump(const char *level, const char *prefix, int prefix_type, int row, int group, const void *bytes,
		    size_t length, bool ascii)
{
	/* A dump is for the eye: the first lines tell. */
	size_t shown = min_t(size_t, length, 64);
	size_t at, i;

	(void)group;
	(void)ascii;
	for (at = 0; at < shown; at += row) {
		char line[128];
		int used = prefix_type == DUMP_PREFIX_OFFSET ? scnprintf(line, sizeof(line), "%08zx:", at) : 0;

		for (i = at; i < min_t(size_t, at + row, shown); i++)
			used += scnprintf(line + used, sizeof(line) - used, " %02x", ((const u8 *)bytes)[i]);
		printk("%s%s%s\n", level, prefix, line);
	}
}

ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t length = strnlen(from, size);

	if (!size)
		return -E2BIG;
	memcpy(to, from, min(length, size - 1));
	to[min(length, size - 1)] = 0;
	return length < size ? (ssize_t)length : -E2BIG;
}

ssize_t strscpy_pad(char *to, const char *from, size_t size)
{
	memset(to, 0, size);
	return strscpy(to, from, size);
}
