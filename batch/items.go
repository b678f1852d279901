package batch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// Item is a line of a batch's input: a job's input, over the one that all items share.
type Item struct {
	// ID is the caller's name for it, in the results. Default: the line's number.
	ID string `json:"id,omitempty"`
	// Vars are the variables for {{NAME}} in the prompt: texts, or any JSON values.
	Vars map[string]json.RawMessage `json:"vars,omitempty"`
	jobs.Input
}

// variable is how a prompt names one.
var variable = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}`)

// parse returns the job of a line with a variant, valid or with the reason why it is not.
func parse(all jobs.Input, v Variant, line []byte, number int) (id string, in jobs.Input, err error) {
	id = strconv.Itoa(number)
	item, err := decode(all, line)
	if err != nil {
		return id, in, session.Invalid(fmt.Sprintf("line %d", number), "is no item: "+err.Error(), `one JSON object, such as {"id": "a1", "prompt": "…"} or {"vars": {"file": "a.txt"}}`)
	}
	if item.ID != "" {
		id = item.ID
	}
	item.Input = v.over(item.Input)
	if item.Prompt, err = fill(item.Prompt, item.Vars); err != nil {
		return id, item.Input, fmt.Errorf("line %d: %w", number, err)
	}
	if err := item.Input.ValidateRepeated(); err != nil {
		return id, item.Input, fmt.Errorf("line %d: %w", number, err)
	}
	return id, item.Input, nil
}

// decode returns the item of a line over the job that all items share. A list of the line's
// replaces the shared one: decoded over it, its elements would have what they do not say
// themselves from those in the same position.
func decode(all jobs.Input, line []byte) (Item, error) {
	var given Item
	if err := decodeOver(&given, line); err != nil {
		return given, err
	}
	item := Item{Input: all}
	item.Options.Metadata = maps.Clone(all.Options.Metadata)
	replaceLists(reflect.ValueOf(&item.Input).Elem(), reflect.ValueOf(given.Input))
	return item, decodeOver(&item, line)
}

// decodeOver sets those fields of an item that a line has.
func decodeOver(item *Item, line []byte) error {
	if !bytes.HasPrefix(line, []byte("{")) { // null would be an item that says nothing
		return errors.New("it does not begin with {")
	}
	if !utf8.Valid(line) { // the decoder would replace what is none
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(item); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the object")
	}
	return nil
}

// replaceLists sets the lists of a struct that another one of its type has.
func replaceLists(in, by reflect.Value) {
	for i := range by.NumField() {
		switch f := by.Field(i); f.Kind() {
		case reflect.Struct:
			replaceLists(in.Field(i), f)
		case reflect.Slice:
			if !f.IsNil() {
				in.Field(i).Set(f)
			}
		}
	}
}

// fill puts an item's variables into a prompt.
func fill(prompt string, vars map[string]json.RawMessage) (string, error) {
	var missing error
	filled := variable.ReplaceAllStringFunc(prompt, func(s string) string {
		name := variable.FindStringSubmatch(s)[1]
		v, ok := vars[name]
		if !ok {
			missing = session.Invalid("vars", fmt.Sprintf("have no %q, which the prompt names", name), "each variable of the prompt")
			return s
		}
		var text string
		if json.Unmarshal(v, &text) == nil {
			return text
		}
		return string(v)
	})
	return filled, missing
}

// A batch's objects in the archive: its input, pages of items, and results.
const (
	manifestName = "manifest.json"
	reportName   = "report.json"
	// pageItems and pageBytes bound a page.
	pageItems = 500
	pageBytes = 4 << 20
	// maxLine bounds a line of the input.
	maxLine = 2 << 20
)

func resultName(index int) string  { return fmt.Sprintf("result-%07d.json", index) }
func resultsName(first int) string { return fmt.Sprintf("results-%07d.jsonl", first) }

// manifest is what the archive has of a batch beside its items.
type manifest struct {
	Input Input  `json:"input"`
	Pages []page `json:"pages"`
}

// page is an object with items. Its name is made of its content: whoever uploads other items
// under the same id changes none.
type page struct {
	Name  string `json:"name"`
	First int    `json:"first"`
	Items int    `json:"items"`
}

// page returns the page that has an item.
func (m manifest) page(index int) page {
	i, _ := slices.BinarySearchFunc(m.Pages, index+1, func(p page, next int) int { return cmp.Compare(p.First, next) })
	return m.Pages[i-1]
}

// items returns the lines of a page.
func (p page) load(ctx context.Context, from *archive.Objects) (all []stored, err error) {
	text, _, err := from.Get(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var s stored
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		all = append(all, s)
	}
	if len(all) != p.Items {
		return nil, fmt.Errorf("%s has %d items, not %d: %w", p.Name, len(all), p.Items, archive.ErrCorrupt)
	}
	return all, nil
}

// stored is a line of a page: an item with the number of its line.
type stored struct {
	Number int `json:"n"`
	// Variant is the index of the item's variant.
	Variant int             `json:"v,omitempty"`
	Line    json.RawMessage `json:"l,omitempty"`
	// Text is a line that is no JSON.
	Text string `json:"t,omitempty"`
}

// byteOrderMark is how programs of Windows begin a file in UTF-8.
const byteOrderMark = "\ufeff"

// upload writes the items of a batch into the archive, and returns its input with their number
// and digest. Blank lines are left out. A line that is no item is a failed item in the results.
func upload(ctx context.Context, to *archive.Objects, in Input, items io.Reader) (Input, error) {
	u := uploader{to: to, sum: sha256.New(), each: max(len(in.Variants), 1)}
	sc := bufio.NewScanner(items)
	sc.Buffer(nil, maxLine)
	number := 0
	for sc.Scan() {
		line := sc.Bytes()
		if number++; number == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := u.add(ctx, number, line); err != nil {
				return in, err
			}
		}
	}
	switch err := sc.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return in, session.Invalid(fmt.Sprintf("line %d", number+1), "is too long", fmt.Sprintf("at most %d bytes", maxLine))
	case err != nil:
		return in, fmt.Errorf("read the items: %w", err)
	}
	if err := u.flush(ctx); err != nil {
		return in, err
	}
	if err := json.NewEncoder(u.sum).Encode(in); err != nil {
		return in, fmt.Errorf("batch: input: %w", err)
	}
	in.Items, in.Digest = u.items, hex.EncodeToString(u.sum.Sum(nil))
	if err := in.Validate(); err != nil {
		return in, err
	}
	return in, u.sign(ctx, in)
}

type uploader struct {
	to  *archive.Objects
	sum hash.Hash
	// each is the number of items of each line.
	each  int
	items int
	pages []page
	// text has the present page's lines, lines is their number.
	text  bytes.Buffer
	lines int
}

// add adds the items of a line.
func (u *uploader) add(ctx context.Context, number int, line []byte) error {
	s := stored{Number: number, Line: line}
	if !json.Valid(line) {
		s.Line, s.Text = nil, string(line)
	}
	for s.Variant = range u.each {
		if err := u.addItem(ctx, s, len(line)); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	_, _ = u.sum.Write(append(line, '\n')) // a hash returns no error
	return nil
}

func (u *uploader) addItem(ctx context.Context, s stored, size int) error {
	if u.lines == pageItems || u.lines > 0 && u.text.Len()+size > pageBytes {
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
	u.lines++
	return json.NewEncoder(&u.text).Encode(s)
}

func (u *uploader) flush(ctx context.Context) error {
	if u.lines == 0 {
		return nil
	}
	sum := sha256.Sum256(u.text.Bytes())
	p := page{Name: "items-" + hex.EncodeToString(sum[:16]) + ".jsonl", First: u.items, Items: u.lines}
	if err := u.to.Put(ctx, p.Name, u.text.Bytes()); err != nil {
		return fmt.Errorf("write the items: %w", err)
	}
	u.pages = append(u.pages, p)
	u.items, u.lines = u.items+u.lines, 0
	u.text.Reset()
	return nil
}

// sign writes the manifest, unless the batch has one already, which must be the same.
func (u *uploader) sign(ctx context.Context, in Input) error {
	text, err := json.Marshal(manifest{in, u.pages})
	if err != nil {
		return fmt.Errorf("batch: input: %w", err)
	}
	if _, err := u.to.Swap(ctx, manifestName, "", text); err == nil || !errors.Is(err, archive.ErrChanged) {
		return err
	}
	had, err := loadManifest(ctx, u.to)
	if err != nil {
		return err
	}
	if had.Input.Digest != in.Digest {
		return session.ErrConflict
	}
	return nil
}

func loadManifest(ctx context.Context, from *archive.Objects) (m manifest, err error) {
	text, _, err := from.Get(ctx, manifestName)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}
