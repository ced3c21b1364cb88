/* The gadget's side of udc.c: what the kernel's gadget core does (drivers/usb/gadget/udc/core.c), as far as one gadget wants. */

/* Endpoints and requests, as udc.c calls them. */

void usb_ep_set_maxpacket_limit(struct usb_ep *ep, unsigned int limit)
{
	ep->maxpacket_limit = limit;
	ep->maxpacket = limit;
}

int usb_ep_enable(struct usb_ep *ep)
{
	int error;

	if (ep->enabled)
		return 0;
	error = ep->ops->enable(ep, ep->desc);
	ep->enabled = !error;
	return error;
}

int usb_ep_disable(struct usb_ep *ep)
{
	int error;

	if (!ep->enabled)
		return 0;
	error = ep->ops->disable(ep);
	ep->enabled = !!error;
	return error;
}

struct usb_request *usb_ep_alloc_request(struct usb_ep *ep, gfp_t flags) { return ep->ops->alloc_request(ep, flags); }
int usb_ep_set_halt(struct usb_ep *ep) { return ep->ops->set_halt(ep, 1); }
int usb_ep_clear_halt(struct usb_ep *ep) { return ep->ops->set_halt(ep, 0); }
void usb_ep_fifo_flush(struct usb_ep *ep) { ep->ops->fifo_flush(ep); }

/* Mappings: the host has memory of its own that the device reaches, and copies. */

static void glue_complete(struct usb_ep *ep, struct usb_request *req);

static unsigned long glue_token(const struct usb_request *req)
{
	return req->complete == glue_complete ? (unsigned long)req->context : 0;
}

int usb_gadget_map_request_by_dev(struct device *dev, struct usb_request *req, int is_in)
{
	unsigned long long dma = 0;
	int error = host_map(glue_token(req), req->buf, req->length, is_in, &dma);

	if (error)
		return error;
	req->dma = dma;
	req->dma_mapped = req->length != 0;
	return 0;
}

void usb_gadget_unmap_request_by_dev(struct device *dev, struct usb_request *req, int is_in)
{
	if (req->dma_mapped)
		host_unmap(req->dma);
	req->dma_mapped = 0;
}

void usb_gadget_unmap_request(struct usb_gadget *gadget, struct usb_request *req, int is_in)
{
	usb_gadget_unmap_request_by_dev(gadget->dev.parent, req, is_in);
}

/* A mapping that udc.c does not end would be its leak, and the function's buffer still the device's. It is ended here. */
static void glue_end_mapping(struct usb_request *req, const char *when)
{
	if (!req->dma_mapped)
		return;
	glue_print("a request is %s while its buffer is mapped", when);
	usb_gadget_unmap_request_by_dev(NULL, req, 0);
}

void usb_ep_free_request(struct usb_ep *ep, struct usb_request *req)
{
	glue_end_mapping(req, "freed");
	ep->ops->free_request(ep, req);
}

void usb_gadget_giveback_request(struct usb_ep *ep, struct usb_request *req)
{
	glue_end_mapping(req, "given back");
	req->complete(ep, req);
}

/* The pull-up. In Linux VBUS and it meet in a work item. */

static void glue_set_pullup(struct glue_udc *udc, bool on)
{
	struct usb_gadget *gadget = &udc->ci.gadget;

	if (udc->connected == on)
		return;
	udc->connected = on;
	gadget->ops->pullup(gadget, on);
}

void usb_udc_vbus_handler(struct usb_gadget *gadget, bool status)
{
	struct glue_udc *udc = glue_of(container_of(gadget, struct ci_hdrc, gadget));

	glue_set_pullup(udc, status && udc->wants_pullup);
}

void usb_gadget_set_state(struct usb_gadget *gadget, enum usb_device_state state) { gadget->state = state; }

void usb_gadget_udc_reset(struct usb_gadget *gadget, struct usb_gadget_driver *driver)
{
	driver->reset(gadget);
	usb_gadget_set_state(gadget, USB_STATE_DEFAULT);
}

/* Registered: from here on the dQHs have their owners. */
int usb_add_gadget_udc(struct device *parent, struct usb_gadget *gadget)
{
	struct ci_hdrc *ci = container_of(gadget, struct ci_hdrc, gadget);
	const unsigned int numbers = ci->hw_ep_max / 2;
	unsigned int index;

	for (index = 0; index < ci->hw_ep_max; index++)
		host_claim_head(ci->ci_hw_ep[index].qh.dma, 2 * (index % numbers) + index / numbers);
	return 0;
}

/* A function takes its requests of endpoint 0 back when it is unbound; those of others end with their endpoints. */
static void glue_unbind(struct ci_hw_ep *hwep)
{
	struct ci_hw_req *hwreq, *next;

	list_for_each_entry_safe(hwreq, next, &hwep->qh.queue, queue)
		if (glue_token(&hwreq->req))
			hwep->ep.ops->dequeue(&hwep->ep, &hwreq->req);
}

void usb_del_gadget_udc(struct usb_gadget *gadget)
{
	struct ci_hdrc *ci = container_of(gadget, struct ci_hdrc, gadget);
	struct glue_udc *udc = glue_of(ci);

	glue_set_pullup(udc, false);
	if (!udc->started)
		return;
	glue_unbind(ci->ep0out);
	glue_unbind(ci->ep0in);
	gadget->ops->udc_stop(gadget);
	udc->started = false;
}

/* The gadget driver: the program's. */

static int glue_setup(struct usb_gadget *gadget, const struct usb_ctrlrequest *packet) { return host_setup(packet); }
static void glue_reset(struct usb_gadget *gadget) { host_reset(); }
static void glue_disconnect(struct usb_gadget *gadget) { host_disconnect(); }
static void glue_suspend(struct usb_gadget *gadget) { host_suspend(); }
static void glue_resume(struct usb_gadget *gadget) { host_resume(); }

/* ci_udc_start, once */
int glue_start(struct glue_udc *udc)
{
	struct usb_gadget *gadget = &udc->ci.gadget;
	int error;

	if (udc->started)
		return 0;
	udc->driver = (struct usb_gadget_driver){
		.function = "poolproof",
		.max_speed = USB_SPEED_HIGH,
		.setup = glue_setup,
		.reset = glue_reset,
		.disconnect = glue_disconnect,
		.suspend = glue_suspend,
		.resume = glue_resume,
	};
	error = gadget->ops->udc_start(gadget, &udc->driver);
	udc->started = !error;
	return error;
}

/* The program's calls. */

static struct ci_hw_ep *glue_endpoint(struct glue_udc *udc, unsigned char address)
{
	struct ci_hdrc *ci = &udc->ci;
	const unsigned int number = address & USB_ENDPOINT_NUMBER_MASK, numbers = ci->hw_ep_max / 2;

	if (number >= numbers)
		return NULL;
	/* A gadget knows one endpoint 0. */
	if (!number)
		return ci->ep0in;
	return &ci->ci_hw_ep[number + (address & USB_ENDPOINT_DIR_MASK ? numbers : 0)];
}

int glue_speed(struct glue_udc *udc) { return udc->ci.gadget.speed; }

/* The number of the endpoint that the controller wants, or an error if it has no wish. */
int glue_match_endpoint(struct glue_udc *udc, int type, int in, unsigned int taken)
{
	struct ci_hdrc *ci = &udc->ci;
	struct usb_endpoint_descriptor descriptor = {
		.bLength = USB_DT_ENDPOINT_SIZE,
		.bDescriptorType = USB_DT_ENDPOINT,
		.bEndpointAddress = in ? USB_DIR_IN : USB_DIR_OUT,
		.bmAttributes = type,
	};
	const unsigned int numbers = ci->hw_ep_max / 2;
	struct usb_ep *ep;
	unsigned int index;

	for (index = 0; index < ci->hw_ep_max; index++)
		ci->ci_hw_ep[index].ep.claimed = !!(taken & BIT(2 * (index % numbers) + index / numbers));
	ep = ci->gadget.ops->match_ep(&ci->gadget, &descriptor, NULL);
	if (!ep)
		return -ENOENT;
	return (container_of(ep, struct ci_hw_ep, ep) - ci->ci_hw_ep) % numbers;
}

int glue_enable(struct glue_udc *udc, const unsigned char *bytes)
{
	struct usb_endpoint_descriptor *descriptor;
	struct ci_hw_ep *hwep = glue_endpoint(udc, bytes[2]);

	if (!hwep)
		return -EINVAL;
	if (hwep->ep.enabled)
		return -EBUSY;
	descriptor = &udc->descriptors[hwep - udc->ci.ci_hw_ep];
	memset(descriptor, 0, sizeof(*descriptor));
	memcpy(descriptor, bytes, USB_DT_ENDPOINT_SIZE);
	hwep->ep.desc = descriptor;
	return usb_ep_enable(&hwep->ep);
}

int glue_disable(struct glue_udc *udc, unsigned char address)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);

	if (!hwep || !hwep->ep.enabled)
		return -EINVAL;
	return usb_ep_disable(&hwep->ep);
}

static void glue_complete(struct usb_ep *ep, struct usb_request *req)
{
	host_complete(glue_token(req), req->status, req->actual);
	usb_ep_free_request(ep, req);
}

int glue_queue(struct glue_udc *udc, unsigned char address, const struct glue_request *request, void **handle)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);
	struct usb_request *req;
	int error;

	if (!hwep || !hwep->ep.enabled)
		return -EINVAL;
	req = usb_ep_alloc_request(&hwep->ep, GFP_ATOMIC);
	if (!req)
		return -ENOMEM;
	req->buf = request->data;
	req->length = request->length;
	req->zero = request->zero;
	req->short_not_ok = request->short_not_ok;
	req->no_interrupt = request->no_interrupt;
	req->complete = glue_complete;
	req->context = (void *)request->token;
	error = hwep->ep.ops->queue(&hwep->ep, req, GFP_ATOMIC);
	if (error)
		usb_ep_free_request(&hwep->ep, req);
	else
		*handle = req;
	return error;
}

/* Where a request of endpoint 0 is: both directions are one endpoint to a gadget, and have a queue each. */
static struct ci_hw_ep *glue_queue_of(struct glue_udc *udc, struct ci_hw_ep *hwep, struct usb_request *req)
{
	struct ci_hw_req *hwreq;

	if (hwep != udc->ci.ep0in)
		return hwep;
	list_for_each_entry(hwreq, &udc->ci.ep0out->qh.queue, queue)
		if (&hwreq->req == req)
			return udc->ci.ep0out;
	return hwep;
}

/* usb_ep_dequeue */
int glue_dequeue(struct glue_udc *udc, unsigned char address, void *handle)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);

	if (!hwep)
		return -EINVAL;
	return hwep->ep.ops->dequeue(&glue_queue_of(udc, hwep, handle)->ep, handle);
}

int glue_set_halt(struct glue_udc *udc, unsigned char address, int halt)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);

	if (!hwep)
		return -EINVAL;
	return halt ? usb_ep_set_halt(&hwep->ep) : usb_ep_clear_halt(&hwep->ep);
}

int glue_set_wedge(struct glue_udc *udc, unsigned char address)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);

	return hwep ? hwep->ep.ops->set_wedge(&hwep->ep) : -EINVAL;
}

int glue_flush(struct glue_udc *udc, unsigned char address)
{
	struct ci_hw_ep *hwep = glue_endpoint(udc, address);

	if (!hwep)
		return -EINVAL;
	usb_ep_fifo_flush(&hwep->ep);
	return 0;
}

int glue_set_self_powered(struct glue_udc *udc, int on)
{
	struct usb_gadget *gadget = &udc->ci.gadget;

	return gadget->ops->set_selfpowered(gadget, on);
}

/* usb_gadget_connect, usb_gadget_disconnect */
int glue_pullup(struct glue_udc *udc, int on)
{
	int error;

	udc->wants_pullup = on;
	if (on) {
		error = glue_start(udc);
		if (error)
			return error;
	}
	if (udc->started && udc->ci.vbus_active)
		glue_set_pullup(udc, on);
	return 0;
}

int glue_wakeup(struct glue_udc *udc)
{
	struct usb_gadget *gadget = &udc->ci.gadget;

	return gadget->ops->wakeup(gadget);
}
