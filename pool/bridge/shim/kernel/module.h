/* What only a real kernel has a use for (include/linux/{export,module}.h). */
#ifndef POOLPROOF_MODULE_H
#define POOLPROOF_MODULE_H

#define CONFIG_HAS_DMA	1
#define IS_ENABLED(option) 0
#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define MODULE_AUTHOR(text)

#endif
