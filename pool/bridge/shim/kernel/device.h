/* Devices, their attributes and managed resources (include/linux/device.h). */
#ifndef POOLPROOF_DEVICE_H
#define POOLPROOF_DEVICE_H

struct device;

struct attribute {
	const char *name;
	umode_t mode;
};

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *page);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *page, size_t length);
};

#define DEVICE_ATTR_RO(_name) struct device_attribute dev_attr_##_name = { { #_name, 0444 }, _name##_show, NULL }

struct device {
	struct list_head dma_pools;
	struct list_head devres;
	/* The one file that a pool makes. */
	struct device_attribute *file;
	void (*release)(struct device *dev);
	void *driver_data;
	u64 *dma_mask;
	u64 coherent_dma_mask;
	char name[32];
};

#define dev_name(dev)	((dev)->name)
int dev_set_name(struct device *dev, const char *format, ...);
int device_create_file(struct device *dev, const struct device_attribute *attr);
void device_remove_file(struct device *dev, const struct device_attribute *attr);

typedef void (*dr_release_t)(struct device *dev, void *resource);
typedef int (*dr_match_t)(struct device *dev, void *resource, void *data);
void *devres_alloc(dr_release_t release, size_t size, gfp_t flags);
void devres_free(void *resource);
void devres_add(struct device *dev, void *resource);
int devres_release(struct device *dev, dr_release_t release, dr_match_t match, void *data);
int devres_destroy(struct device *dev, dr_release_t release, dr_match_t match, void *data);

#endif
