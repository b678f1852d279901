package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/internal/heartbeat"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// Activities are those of batches. Safe for concurrent use.
type Activities struct {
	Temporal client.Client
	Archive  *archive.Archive
}

// LoadItem returns an item from the archive.
func (a *Activities) LoadItem(ctx context.Context, in ItemInput) (LoadedItem, error) {
	from, err := a.Archive.Batch(in.BatchID)
	if err != nil {
		return LoadedItem{}, session.ToTemporal(session.Invalid("batchId", err.Error(), "the id of a batch"))
	}
	return load(ctx, from, in)
}

func load(ctx context.Context, from *archive.Objects, in ItemInput) (LoadedItem, error) {
	m, err := loadManifest(ctx, from)
	if err != nil {
		return LoadedItem{}, err
	}
	if in.Index < 0 || in.Index >= m.Input.Items {
		return LoadedItem{}, session.ToTemporal(session.Invalid("index", fmt.Sprintf("is %d", in.Index), fmt.Sprintf("0 to %d", m.Input.Items-1)))
	}
	p := m.page(in.Index)
	lines, err := p.load(ctx, from)
	if err != nil {
		return LoadedItem{}, err
	}
	return m.item(lines[in.Index-p.First]), nil
}

// item returns a stored line as a job.
func (m manifest) item(s stored) LoadedItem {
	text := []byte(s.Line)
	if s.Text != "" {
		text = []byte(s.Text)
	}
	var v Variant
	if len(m.Input.Variants) > 0 {
		v = m.Input.Variants[s.Variant]
	}
	id, job, err := parse(m.Input.Job, v, text, s.Number)
	out := LoadedItem{Number: s.Number, ID: id, Variant: v.Name, Job: job}
	if n := session.JSONSize(out); err == nil && n > maxItemBytes {
		err = fmt.Errorf("line %d: %w", s.Number, session.Invalid("prompt", fmt.Sprintf("and all else of the job are %d bytes", n), fmt.Sprintf("at most %d bytes with the variables put in", maxItemBytes)))
	}
	if err != nil {
		out.Job, out.Invalid = jobs.Input{}, err.Error()
	}
	return out
}

// maxItemBytes bounds an item as a job: Temporal takes at most 2 MiB in one payload.
const maxItemBytes = 1900 << 10

// SaveLine writes the line of an item; that of an earlier attempt is replaced.
func (a *Activities) SaveLine(ctx context.Context, in SaveLineInput) error {
	to, err := a.Archive.Batch(in.BatchID)
	if err != nil {
		return err
	}
	if in.Line.ID == "" { // its workflow was ended from outside, which knew more
		item, err := load(ctx, to, ItemInput{BatchID: in.BatchID, Attempt: Attempt{Index: in.Line.Index}})
		if err != nil {
			return err
		}
		in.Line.Number, in.Line.ID, in.Line.Variant = item.Number, item.ID, item.Variant
	}
	text, err := json.Marshal(in.Line)
	if err != nil {
		return fmt.Errorf("batch %s: item %d: %w", in.BatchID, in.Line.Index, err)
	}
	return to.Put(ctx, resultName(in.Line.Index), append(text, '\n'))
}

// AwaitItem waits until the workflow of an attempt has ended. The error of one that has no
// outcome has the type of its end.
func (a *Activities) AwaitItem(ctx context.Context, in AwaitItemInput) (out Outcome, err error) {
	defer heartbeat.Keep(ctx)()
	err = a.Temporal.GetWorkflow(ctx, in.WorkflowID, "").Get(ctx, &out)
	_, ended := errors.AsType[*temporal.WorkflowExecutionError](err)
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	if ended || gone { // no other attempt finds it otherwise
		o := endedAs(err)
		return out, temporal.NewNonRetryableApplicationError(o.Message, o.Type, err)
	}
	return out, err
}

// atOnce is how many results are read at a time.
const atOnce = 32

// Report joins the results of a batch into pages, by index, and writes the report.
func (a *Activities) Report(ctx context.Context, in ReportInput) (Report, error) {
	defer heartbeat.Keep(ctx)()
	o, err := a.Archive.Batch(in.BatchID)
	if err != nil {
		return Report{}, err
	}
	m, err := loadManifest(ctx, o)
	if err != nil {
		return Report{}, err
	}
	var all tally
	byVariant := map[string]*tally{}
	for _, v := range m.Input.Variants {
		byVariant[v.Name] = &tally{VariantReport: VariantReport{Name: v.Name}}
	}
	for _, p := range m.Pages {
		lines, err := join(ctx, o, p)
		if err != nil {
			return Report{}, fmt.Errorf("batch %s: join the results: %w", in.BatchID, err)
		}
		for _, l := range lines {
			all.add(l)
			if v := byVariant[l.Variant]; v != nil {
				v.add(l)
			}
		}
	}
	total := all.report()
	out := Report{
		BatchID: in.BatchID, Totals: in.Totals, Items: m.Input.Items, MS: in.MS,
		P50: total.P50, P90: total.P90, P99: quantile(all.times, 99), Max: quantile(all.times, 100),
	}
	for _, v := range m.Input.Variants {
		out.Variants = append(out.Variants, byVariant[v.Name].report())
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return out, err
	}
	return out, o.Put(ctx, reportName, append(text, '\n'))
}

// quantile returns the smallest time that at least percent of them do not exceed.
func quantile(sorted []int64, percent int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}

// join writes the results of a page's items into one object, and removes the single ones.
func join(ctx context.Context, o *archive.Objects, p page) (lines []Line, err error) {
	var joined []byte
	if err := archive.Retry(ctx, func() (err error) {
		joined, err = joinOnce(ctx, o, p)
		return err
	}); err != nil {
		return nil, err
	}
	single := make([]string, p.Items)
	for i := range single {
		single[i] = resultName(p.First + i)
	}
	lines, err = parseLines(joined)
	return lines, cmp.Or(err, o.Remove(ctx, single...))
}

// joinOnce puts the single results of a page into its object, and returns that. What was joined
// before is in it: another attempt may have removed the single ones since, and a batch that was
// reset after its report has more of them. Error: archive.ErrChanged.
func joinOnce(ctx context.Context, o *archive.Objects, p page) ([]byte, error) {
	name := resultsName(p.First)
	before, tag, err := o.Get(ctx, name)
	if err != nil && !errors.Is(err, archive.ErrNotFound) {
		return nil, err
	}
	texts, err := singles(ctx, o, p)
	if err != nil {
		return nil, err
	}
	for one := range bytes.Lines(before) {
		var l Line
		if err := json.Unmarshal(one, &l); err != nil || l.Index < p.First || l.Index >= p.First+p.Items {
			return nil, fmt.Errorf("%s: %w: a line is no result of its items", name, archive.ErrCorrupt)
		}
		if i := l.Index - p.First; texts[i] == nil {
			texts[i] = one
		}
	}
	joined := bytes.Join(texts, nil)
	if tag == "" || !bytes.Equal(joined, before) {
		_, err = o.Swap(ctx, name, tag, joined)
	}
	return joined, err
}

// singles returns the results of a page's items that are not joined yet; empty for one that
// has none.
func singles(ctx context.Context, o *archive.Objects, p page) ([][]byte, error) {
	texts := make([][]byte, p.Items)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range texts {
		g.Go(func() error {
			text, _, err := o.Get(ctx, resultName(p.First+i))
			if errors.Is(err, archive.ErrNotFound) {
				return nil
			}
			texts[i] = text
			return err
		})
	}
	return texts, g.Wait()
}

func parseLines(text []byte) (all []Line, err error) {
	for one := range bytes.Lines(text) {
		var l Line
		if err := json.Unmarshal(one, &l); err != nil {
			return nil, fmt.Errorf("a line of the results: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// ByName returns the activities by the names under which they are registered: those of
// session.TaskQueue, and those of session.WatchQueue.
func (a *Activities) ByName() (light, watching map[string]any) {
	return map[string]any{ActivityLoadItem: a.LoadItem, ActivitySaveLine: a.SaveLine, ActivityReport: a.Report},
		map[string]any{ActivityAwaitItem: a.AwaitItem}
}
