package activities

// blockOrder is the main conversation's blocks in the order in which they were
// created, from some block on that is sure to stay.
type blockOrder []heardBlock

// heardBlock is a block, and whether it is sure to stay: one that is pending
// may yet be dropped as empty, or be lost with the agent.
type heardBlock struct {
	id     string
	stands bool
}

// place adds a block at the end, or says of a known one that it stands.
func (o *blockOrder) place(id string, stands bool) {
	for i := range *o {
		if (*o)[i].id == id {
			(*o)[i].stands = (*o)[i].stands || stands
			return
		}
	}
	*o = append(*o, heardBlock{id, stands})
}

// lastStanding is the index of the last of the first n blocks that stands.
func (o blockOrder) lastStanding(n int) int {
	for i := n - 1; i > 0; i-- {
		if o[i].stands {
			return i
		}
	}
	return 0
}

// anchor is the last of the first n blocks that is sure to stay.
func (o blockOrder) anchor(n int) string {
	if len(o) == 0 {
		return ""
	}
	return o[o.lastStanding(n)].id
}

// prune forgets the blocks that nothing will be asked of: those that stand,
// before the last one that does.
func (o *blockOrder) prune() {
	last := o.lastStanding(len(*o))
	kept := (*o)[:0]
	for i, b := range *o {
		if !b.stands || i >= last {
			kept = append(kept, b)
		}
	}
	*o = kept
}
