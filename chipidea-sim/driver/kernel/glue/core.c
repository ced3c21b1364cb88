/* What core.c and otg.c do around udc.c: the register map, the reset, the interrupt, VBUS. In their order. */

struct glue_udc {
	struct ci_hdrc ci;
	struct ci_hdrc_platform_data platdata;
	struct device dev, parent;
	struct usb_gadget_driver driver;
	/* By index in ci_hw_ep. */
	struct usb_endpoint_descriptor descriptors[ENDPT_MAX];
	bool started;
	/* What the gadget wants of the pull-up, and whether it is on (struct usb_gadget). */
	bool wants_pullup;
	bool connected;
};

static struct glue_udc *glue_of(struct ci_hdrc *ci) { return container_of(ci, struct glue_udc, ci); }

/* The places of the registers: below OP_ENDPTCTRL by index, in both maps. */
struct glue_place {
	u8 non_lpm, lpm;
};

static const struct glue_place glue_map[OP_ENDPTCTRL + 1] = {
	[CAP_CAPLENGTH] = { 0x00, 0x00 },      [CAP_HCCPARAMS] = { 0x08, 0x08 },
	[CAP_DCCPARAMS] = { 0x24, 0x24 },      [CAP_TESTMODE] = { 0x38, 0xfc },
	[OP_USBCMD] = { 0x00, 0x00 },          [OP_USBSTS] = { 0x04, 0x04 },
	[OP_USBINTR] = { 0x08, 0x08 },         [OP_FRINDEX] = { 0x0c, 0x0c },
	[OP_DEVICEADDR] = { 0x14, 0x14 },      [OP_ENDPTLISTADDR] = { 0x18, 0x18 },
	[OP_TTCTRL] = { 0x1c, 0x1c },          [OP_BURSTSIZE] = { 0x20, 0x20 },
	[OP_ULPI_VIEWPORT] = { 0x30, 0x30 },   [OP_PORTSC] = { 0x44, 0x44 },
	[OP_DEVLC] = { 0x84, 0x84 },           [OP_OTGSC] = { 0x64, 0xc4 },
	[OP_USBMODE] = { 0x68, 0xc8 },         [OP_ENDPTSETUPSTAT] = { 0x6c, 0xd8 },
	[OP_ENDPTPRIME] = { 0x70, 0xdc },      [OP_ENDPTFLUSH] = { 0x74, 0xe0 },
	[OP_ENDPTSTAT] = { 0x78, 0xe4 },       [OP_ENDPTCOMPLETE] = { 0x7c, 0xe8 },
	[OP_ENDPTCTRL] = { 0x80, 0xec },
};

static void glue_map_registers(struct hw_bank *bank)
{
	int index;

	for (index = 0; index <= OP_LAST; index++) {
		const int known = min_t(int, index, OP_ENDPTCTRL);
		const u8 place = bank->lpm ? glue_map[known].lpm : glue_map[known].non_lpm;

		bank->regmap[index] = (index <= CAP_LAST ? bank->cap : bank->op) + place + 4 * (index - known);
	}
}

u32 hw_read_intr_enable(struct ci_hdrc *ci) { return hw_read(ci, OP_USBINTR, ~0); }
u32 hw_read_intr_status(struct ci_hdrc *ci) { return hw_read(ci, OP_USBSTS, ~0); }
u32 hw_read_otgsc(struct ci_hdrc *ci, u32 mask) { return hw_read(ci, OP_OTGSC, mask); }

/* Status bits that are not asked for stay as they are: they are cleared by a 1. */
void hw_write_otgsc(struct ci_hdrc *ci, u32 mask, u32 data)
{
	hw_write(ci, OP_OTGSC, mask | OTGSC_INT_STATUS_BITS, data);
}

int hw_port_test_set(struct ci_hdrc *ci, u8 mode)
{
	if (mode > 7)
		return -EINVAL;
	hw_write(ci, OP_PORTSC, PORTSC_PTC, mode << __ffs(PORTSC_PTC));
	return 0;
}

static void glue_leave_low_power(struct ci_hdrc *ci)
{
	const enum ci_hw_regs port = ci->hw_bank.lpm ? OP_DEVLC : OP_PORTSC;
	const u32 bit = PORTSC_PHCD(ci->hw_bank.lpm);

	if (hw_read(ci, port, bit))
		hw_write(ci, port, bit, 0);
}

/* Before 2.0 none is known to udc.c. */
static enum ci_revision glue_revision(struct ci_hdrc *ci)
{
	switch (hw_read_id_reg(ci, ID_ID, VERSION) >> __ffs(VERSION)) {
	case 0:
		return CI_REVISION_1X;
	case 2:
		return CI_REVISION_20 + (hw_read_id_reg(ci, ID_ID, REVISION) >> __ffs(REVISION));
	default:
		return CI_REVISION_UNKNOWN;
	}
}

/* hw_device_init */
static int glue_find_controller(struct ci_hdrc *ci, bool works_around)
{
	struct hw_bank *bank = &ci->hw_bank;

	bank->abs = GLUE_REGISTERS;
	bank->cap = bank->abs + ci->platdata->capoffset;
	bank->op = bank->cap + (ioread32(bank->cap) & 0xff);
	glue_map_registers(bank);
	bank->lpm = hw_read(ci, CAP_HCCPARAMS, HCCPARAMS_LEN) >> __ffs(HCCPARAMS_LEN);
	glue_map_registers(bank);
	ci->hw_ep_max = 2 * (hw_read(ci, CAP_DCCPARAMS, DCCPARAMS_DEN) >> __ffs(DCCPARAMS_DEN));
	if (!ci->hw_ep_max || ci->hw_ep_max > ENDPT_MAX)
		return -ENODEV;
	glue_leave_low_power(ci);
	hw_write(ci, OP_USBINTR, ~0, 0);
	hw_write(ci, OP_USBSTS, ~0, ~0);
	ci->rev = glue_revision(ci);
	if (!works_around)
		ci->rev = CI_REVISION_25;
	return 0;
}

/* ci_get_otg_capable */
static void glue_find_otg(struct ci_hdrc *ci)
{
	const u32 both = DCCPARAMS_DC | DCCPARAMS_HC;

	ci->is_otg = hw_read(ci, CAP_DCCPARAMS, both) == both;
	if (ci->is_otg)
		hw_write_otgsc(ci, OTGSC_INT_EN_BITS | OTGSC_INT_STATUS_BITS, OTGSC_INT_STATUS_BITS);
}

/* In device mode; ci_hdrc asks for both modes. */
void ci_platform_configure(struct ci_hdrc *ci)
{
	const struct ci_hdrc_platform_data *platdata = ci->platdata;
	const bool is_device = hw_read(ci, OP_USBMODE, USBMODE_CM) == USBMODE_CM_DC;

	hw_read(ci, OP_USBMODE, USBMODE_CM);
	if (is_device && platdata->flags & CI_HDRC_DISABLE_DEVICE_STREAMING)
		hw_write(ci, OP_USBMODE, USBMODE_CI_SDIS, USBMODE_CI_SDIS);
	hw_write(ci, OP_USBCMD, 0xff0000, platdata->itc_setting << 16);
	if (platdata->flags & CI_HDRC_OVERRIDE_AHB_BURST)
		hw_write_id_reg(ci, ID_SBUSCFG, AHBBRST_MASK, platdata->ahb_burst_config);
	/* With 0 ci_hdrc may set burst sizes. */
	hw_read_id_reg(ci, ID_SBUSCFG, AHBBRST_MASK);
}

int hw_device_reset(struct ci_hdrc *ci)
{
	int round;

	hw_write(ci, OP_ENDPTFLUSH, ~0, ~0);
	hw_write(ci, OP_USBCMD, USBCMD_RS, 0);
	hw_write(ci, OP_USBCMD, USBCMD_RST, USBCMD_RST);
	for (round = 0; hw_read(ci, OP_USBCMD, USBCMD_RST); round++) {
		if (round == 1000) {
			dev_err(ci->dev, "error resetting controller, ret=%d", -ETIMEDOUT);
			return -ETIMEDOUT;
		}
	}
	hw_write(ci, OP_USBMODE, USBMODE_CM, USBMODE_CM_IDLE);
	hw_write(ci, OP_USBMODE, USBMODE_CM, USBMODE_CM_DC);
	hw_write(ci, OP_USBMODE, USBMODE_SLOM, USBMODE_SLOM);
	if (hw_read(ci, OP_USBMODE, USBMODE_CM) != USBMODE_CM_DC) {
		dev_err(ci->dev, "cannot enter in device mode");
		return -ENODEV;
	}
	ci_platform_configure(ci);
	return 0;
}

/* ci_handle_vbus_change. A controller without OTGSC always has VBUS, or 6.1 would never attach it. */
static void glue_look_at_vbus(struct ci_hdrc *ci)
{
	const struct usb_gadget_ops *ops = ci->gadget.ops;

	if (!ci->is_otg) {
		if (!ci->vbus_active)
			ops->vbus_session(&ci->gadget, 1);
		return;
	}
	if (hw_read_otgsc(ci, OTGSC_BSV) && !ci->vbus_active)
		ops->vbus_session(&ci->gadget, 1);
	else if (!hw_read_otgsc(ci, OTGSC_BSV) && ci->vbus_active)
		ops->vbus_session(&ci->gadget, 0);
}

/* ci_hdrc_probe, of a board that is a device only. Returns how many endpoint numbers there are. */
int glue_probe(const struct glue_config *config, struct glue_udc **made)
{
	struct glue_udc *udc = host_kmalloc(sizeof(*udc), 1, 1);
	struct ci_hdrc *ci;
	int error;

	if (!udc)
		return -ENOMEM;
	ci = &udc->ci;
	spin_lock_init(&ci->lock);
	udc->dev.parent = &udc->parent;
	udc->wants_pullup = true;
	udc->platdata = (struct ci_hdrc_platform_data){
		.name = config->name,
		.capoffset = config->capoffset,
		.itc_setting = config->interrupt_threshold,
		.ahb_burst_config = max(config->ahb_burst, 0),
		.flags = (config->registers_shared ? CI_HDRC_REGS_SHARED : 0) |
			 (config->disable_streaming ? CI_HDRC_DISABLE_DEVICE_STREAMING : 0) |
			 (config->ahb_burst >= 0 ? CI_HDRC_OVERRIDE_AHB_BURST : 0),
	};
	ci->dev = &udc->dev;
	ci->platdata = &udc->platdata;
	error = glue_find_controller(ci, config->works_around);
	if (error)
		return error;
	glue_find_otg(ci);
	error = ci_hdrc_gadget_init(ci);
	if (error)
		return error;
	ci->role = CI_ROLE_GADGET;
	hw_write(ci, OP_USBCMD, USBCMD_RS, 0);
	glue_look_at_vbus(ci);
	error = ci->roles[CI_ROLE_GADGET]->start(ci);
	*made = udc;
	return error ? error : ci->hw_ep_max / 2;
}

/* ci_irq_handler, and ci_otg_work in the same go */
int glue_interrupt(struct glue_udc *udc)
{
	struct ci_hdrc *ci = &udc->ci;

	if (ci->is_otg) {
		const u32 otgsc = hw_read_otgsc(ci, ~0);

		if (otgsc & OTGSC_BSVIE && otgsc & OTGSC_BSVIS) {
			hw_write_otgsc(ci, OTGSC_BSVIS, OTGSC_BSVIS);
			glue_look_at_vbus(ci);
			return 0;
		}
	}
	ci->roles[CI_ROLE_GADGET]->irq(ci);
	return 0;
}

/* ci_hdrc_remove */
int glue_remove(struct glue_udc *udc)
{
	struct ci_hdrc *ci = &udc->ci;

	ci_hdrc_gadget_destroy(ci);
	if (ci->is_otg)
		hw_write_otgsc(ci, OTGSC_INT_EN_BITS | OTGSC_INT_STATUS_BITS, OTGSC_INT_STATUS_BITS);
	return 0;
}
