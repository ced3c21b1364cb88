/* Doubly linked lists (include/linux/list.h). */
#ifndef POOLPROOF_LIST_H
#define POOLPROOF_LIST_H

struct list_head {
	struct list_head *next, *prev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

/* What a deleted entry points to: whoever follows it is stopped. */
#define LIST_POISON1	((void *)0x100)
#define LIST_POISON2	((void *)0x122)

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name)	struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline void pp_list_insert(struct list_head *entry, struct list_head *before, struct list_head *after)
{
	before->next = entry;
	entry->prev = before;
	entry->next = after;
	after->prev = entry;
}

static inline void pp_list_close(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	pp_list_insert(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	pp_list_insert(entry, head->prev, head);
}

static inline void list_del(struct list_head *entry)
{
	pp_list_close(entry);
	entry->next = LIST_POISON1;
	entry->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *entry)
{
	pp_list_close(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	pp_list_close(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	pp_list_close(entry);
	list_add_tail(entry, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->prev->next = head->next;
	head->next->prev = list->prev;
	head->next = list->next;
	list->next->prev = head;
	INIT_LIST_HEAD(list);
}

#define list_entry(p, type, member) container_of(p, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(p, member) list_entry((p)->member.next, typeof(*(p)), member)
#define list_prev_entry(p, member) list_entry((p)->member.prev, typeof(*(p)), member)
#define list_entry_is_head(p, head, member) (&(p)->member == (head))
#define list_for_each(p, head) for (p = (head)->next; p != (head); p = p->next)
#define list_for_each_safe(p, n, head) \
	for (p = (head)->next, n = p->next; p != (head); p = n, n = p->next)
#define list_for_each_entry(p, head, member) \
	for (p = list_first_entry(head, typeof(*p), member); !list_entry_is_head(p, head, member); \
	     p = list_next_entry(p, member))
#define list_for_each_entry_reverse(p, head, member) \
	for (p = list_last_entry(head, typeof(*p), member); !list_entry_is_head(p, head, member); \
	     p = list_prev_entry(p, member))
#define list_for_each_entry_safe(p, n, head, member) \
	for (p = list_first_entry(head, typeof(*p), member), n = list_next_entry(p, member); \
	     !list_entry_is_head(p, head, member); p = n, n = list_next_entry(n, member))

#endif
