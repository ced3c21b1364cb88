/* The call that is under way. */
#include "runtime.h"

__thread struct pp_frame *pp_frame;
__thread struct pp_call *pp_bound;

/* From here on a call outside of PP_CALL is this one's, without a guard. */
void pp_bind(struct pp_call *call)
{
	pp_bound = call;
}

unsigned long pp_page_size(void)
{
	struct pp_call *call = pp_call();

	return call ? call->page_size : 4096;
}

/* Ends the call here: the file cannot go on. */
void pp_end_call(void *instruction)
{
	pp_frame->in_file = 0;
	pp_frame->call->end = PP_BUG;
	pp_frame->call->instruction = instruction;
	siglongjmp(pp_frame->back, 1);
}
