package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/session/fork"
)

// MetadataMerged is the key of a merged session's metadata that has the ids of its sessions.
const MetadataMerged = "mergedSessionIds"

// maxMerged bounds what the agent of a merged session is given of the other sessions, in bytes: it
// is part of its system prompt, and maxMergedText each text.
const (
	maxMerged     = 48 << 10
	maxMergedText = 8 << 10
)

// Merge creates a session from several, open or closed, which it does not change. An empty id is
// replaced by a new UUID.
//
//   - Order: the turns of all of them, each from a user's message to the next, in the order in which
//     they began.
//   - Duplicates: a message that several have, since one was forked from another, is there once.
//   - Agent, options and files are those of the first session, and its conversation is what the agent
//     remembers. What the users and agents of the others said is in the system prompt, the newest 48 KiB.
//   - Metadata: those of all, and where several have a key, the first's; the ids are in
//     [MetadataMerged]. Tags: those of all. Totals begin at zero.
//
// Errors are those of Fork.
func (c *Client) Merge(ctx context.Context, ids []string, id string) (*Handle, error) {
	if err := validateMerged(ids); err != nil {
		return nil, err
	}
	var of []original
	for i, id := range ids {
		o, err := c.original(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("merge session %s: %w", id, err)
		}
		if i > 0 && o.Options.Tenant != of[0].Options.Tenant {
			return nil, Invalid("ids", fmt.Sprintf("have the tenants %q and %q", of[0].Options.Tenant, o.Options.Tenant), "sessions of one tenant")
		}
		of = append(of, o)
	}
	o := mergedOptions(of)
	return c.takeOver(ctx, id, takeOver{of: of}, &o)
}

func validateMerged(ids []string) error {
	if len(ids) < 2 {
		return Invalid("ids", fmt.Sprintf("are %d", len(ids)), "two sessions or more")
	}
	for i, id := range ids {
		if err := ValidateID("ids", id); err != nil {
			return err
		}
		if slices.Contains(ids[:i], id) {
			return Invalid("ids", fmt.Sprintf("have %q twice", id), "each session once")
		}
	}
	return nil
}

// mergedOptions returns the options of the first session, with what all of them have.
func mergedOptions(of []original) Options {
	o := derivedOptions(of[0].Options, " (merged)")
	var ids []string
	for i, one := range of {
		ids = append(ids, one.ID)
		if i == 0 {
			continue
		}
		for key, value := range one.Options.Metadata {
			if _, has := o.Metadata[key]; !has && inherits(key) {
				o.Metadata[key] = value
			}
		}
		for _, tag := range one.Options.Tags {
			if !slices.Contains(o.Tags, tag) {
				o.Tags = append(slices.Clip(o.Tags), tag)
			}
		}
	}
	o.Metadata[MetadataMerged], _ = json.Marshal(ids) // strings always encode
	return o
}

// join adds the other sessions to the copy of the first one.
func (c *Client) join(ctx context.Context, of []original, kept fork.Kept, to fork.Copy, r *Record) error {
	if len(of) == 1 {
		return nil
	}
	var others []fork.Other
	for _, o := range of[1:] {
		agent, err := c.o.Agents.Get(o.Options.Agent)
		if err != nil {
			return err
		}
		others = append(others, fork.Other{ID: o.ID, Events: c.o.Archive.Events(ctx, o.ID, agent.Parse)})
	}
	joined, err := fork.Join(ctx, c.o.Archive, kept, others, to)
	if err != nil {
		return err
	}
	r.LastBlockID = joined.Last
	r.Options.SystemPrompt = withTexts(r.Options.SystemPrompt, of, joined.Texts)
	return r.Options.Validate()
}

// withTexts returns a system prompt with what was said in the other sessions, the newest as far as
// there is room.
func withTexts(prompt string, of []original, texts []fork.Text) string {
	titles := map[string]string{}
	for _, o := range of {
		titles[o.ID] = o.Options.Title
	}
	room := min(maxMerged, MaxSystemPrompt-len(prompt)-mergedFrame)
	if room < 0 || len(texts) == 0 {
		return prompt
	}
	var parts []string
	for i, t := range slices.Backward(texts) {
		who := "Agent"
		if t.User {
			who = "User"
		}
		part := fmt.Sprintf("[session %q] %s: %s\n", titles[t.SessionID], who, strings.ToValidUTF8(shorten(t.Text, maxMergedText), ""))
		if room -= len(part); room < 0 {
			parts = append(parts, fmt.Sprintf("(%d earlier messages are left out.)\n", i+1))
			break
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.TrimSpace(prompt + "\n\n" + mergedHead + strings.Join(parts, ""))
}

// mergedHead begins the texts, and mergedFrame is more than what is around them, in bytes.
const (
	mergedHead  = "This session continues several others. What follows was said in those that you don't remember, oldest first.\n\n"
	mergedFrame = len(mergedHead) + 64
)
