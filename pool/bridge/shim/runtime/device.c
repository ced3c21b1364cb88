/* A device's file and its managed resources. */
#include <stdlib.h>
#include "runtime.h"

struct pp_resource {
	struct list_head entry;
	dr_release_t release;
	u64 data[];
};

struct device *pp_device_new(const char *name)
{
	struct device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	strscpy(dev->name, name, sizeof(dev->name));
	INIT_LIST_HEAD(&dev->dma_pools);
	INIT_LIST_HEAD(&dev->devres);
	return dev;
}

void pp_device_drop(struct device *dev)
{
	free(dev);
}

int dev_set_name(struct device *dev, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	pp_format(dev->name, sizeof(dev->name), format, arguments);
	va_end(arguments);
	return 0;
}

int device_create_file(struct device *dev, const struct device_attribute *attr)
{
	might_sleep();
	if (dev->file)
		return -EEXIST;
	dev->file = (struct device_attribute *)attr;
	return 0;
}

void device_remove_file(struct device *dev, const struct device_attribute *attr)
{
	might_sleep();
	if (dev->file == attr)
		dev->file = NULL;
}

static struct pp_resource *pp_resource(void *data)
{
	return container_of(data, struct pp_resource, data);
}

void *devres_alloc(dr_release_t release, size_t size, gfp_t flags)
{
	struct pp_resource *resource = kzalloc(sizeof(*resource) + size, flags);

	if (!resource)
		return NULL;
	INIT_LIST_HEAD(&resource->entry);
	resource->release = release;
	return resource->data;
}

void devres_free(void *data)
{
	if (data)
		kfree(pp_resource(data));
}

void devres_add(struct device *dev, void *data)
{
	list_add(&pp_resource(data)->entry, &dev->devres);
}

static struct pp_resource *pp_remove(struct device *dev, dr_release_t release, dr_match_t match, void *data)
{
	struct pp_resource *resource;

	list_for_each_entry(resource, &dev->devres, entry)
		if (resource->release == release && (!match || match(dev, resource->data, data))) {
			list_del(&resource->entry);
			return resource;
		}
	return NULL;
}

int devres_release(struct device *dev, dr_release_t release, dr_match_t match, void *data)
{
	struct pp_resource *resource = pp_remove(dev, release, match, data);

	if (!resource)
		return -ENOENT;
	release(dev, resource->data);
	kfree(resource);
	return 0;
}

int devres_destroy(struct device *dev, dr_release_t release, dr_match_t match, void *data)
{
	struct pp_resource *resource = pp_remove(dev, release, match, data);

	if (!resource)
		return -ENOENT;
	kfree(resource);
	return 0;
}
