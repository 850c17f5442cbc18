package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

// kind is how a value is written: the format of a text in the API's document, or else the type.
type kind string

const (
	kObject  kind = "object"    // of Properties
	kEither  kind = "either"    // an object, or a list of such
	kList    kind = "array"     // of Items
	kTexts   kind = "texts"     // a map of texts
	kInt     kind = "integer"   // Minimum to Maximum
	kBool    kind = "boolean"   //
	kSpan    kind = "span"      // MinSpan to MaxSpan
	kInstant kind = "date-time" // RFC 3339, whole seconds
	kMoment  kind = "moment"    // a date or an RFC 3339 time
	kSecret  kind = "password"  // a text, or a reference
	kHeader  kind = "header"    // the same, but a plain text is no secret
	kSize    kind = "size"      // MinSpan to MaxSpan, in bytes
	kWord    kind = "word"      // one of words
	kText    kind = "string"    //
)

// references are how a secret is kept out of a file.
const references = "{env: NAME}, {file: PATH} and {ssm: NAME}"

// schema is a component of the API's document, or a part of one, as far as a
// manifest needs it. Once it is resolved Ref and AllOf count no more.
type schema struct {
	Ref         string `json:"$ref"`
	Title       string // the name of the object in messages, such as "a job"
	Type        string
	Format      string
	Description string
	Enum        []any
	Default     any
	Minimum     int64
	Maximum     int64
	MinSpan     string  `json:"x-min"`
	MaxSpan     string  `json:"x-max"`
	MaxLength   int     `json:"maxLength"`
	MinItems    int     `json:"minItems"`
	MaxItems    int     `json:"maxItems"`
	MaxEntries  int     `json:"maxProperties"`
	Entries     *schema `json:"additionalProperties"`
	// Later has the fields or values that only a later version supports, with a message.
	Later map[string]string `json:"x-later"`
	// One has fields of which exactly one is required.
	One        []string `json:"x-one"`
	Properties properties
	Required   []string
	Items      *schema
	OneOf      []*schema `json:"oneOf"`
	AllOf      []*schema `json:"allOf"`

	kind     kind
	words    []string // the values of Enum that this version supports
	min, max time.Duration
	done     bool
}

type property struct {
	name string
	*schema
}

type properties []property

// UnmarshalYAML reads a map of schemas.
func (p *properties) UnmarshalYAML(n ast.Node) error {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return fmt.Errorf("properties are a map, not %s", n.Type())
	}
	for _, kv := range m.Values {
		s := &schema{}
		if err := yaml.NodeToValue(kv.Value, s); err != nil {
			return err
		}
		*p = append(*p, property{kv.Key.String(), s})
	}
	return nil
}

func component(name string) *schema { return components()[name] }

// components are the schemas of a manifest by name. Parsing the whole document would take most of the time of a command.
var components = sync.OnceValue(func() map[string]*schema {
	_, list, _ := strings.Cut(string(api.Document()), "\n  schemas:\n")
	name, texts, all := "", map[string]string{}, map[string]*schema{}
	for line := range strings.Lines(list) {
		if below, ok := strings.CutPrefix(line, "    "); ok && below[0] != ' ' {
			name, line, _ = strings.Cut(below, ":")
		}
		texts[name] += line
	}
	var find func(string) *schema
	find = func(name string) *schema {
		if all[name] == nil {
			all[name] = &schema{}
			if err := yaml.Unmarshal([]byte(texts[name]), all[name]); texts[name] == "" || err != nil {
				panic(fmt.Sprintf("manifest: component %s of the API's document: %v", name, err))
			}
		}
		return all[name].resolve(find)
	}
	find("Manifest")
	find("ManifestSecret")
	return all
})

// resolve joins the parts of allOf, and replaces references by their components.
func (s *schema) resolve(find func(name string) *schema) *schema {
	if s == nil || s.done {
		return s
	}
	if s.Ref != "" {
		return find(s.Ref[strings.LastIndexByte(s.Ref, '/')+1:])
	}
	s.done = true
	if s.AllOf != nil {
		s.Later = map[string]string{}
	}
	for _, part := range s.AllOf {
		part = part.resolve(find)
		s.Properties = append(s.Properties, part.Properties...)
		s.Required = append(s.Required, part.Required...)
		s.One = append(s.One, part.One...)
		maps.Copy(s.Later, part.Later)
	}
	for i, p := range s.Properties {
		s.Properties[i].schema = p.resolve(find)
	}
	for i, one := range s.OneOf {
		s.OneOf[i] = one.resolve(find)
	}
	s.Items, s.Entries = s.Items.resolve(find), s.Entries.resolve(find)
	for _, w := range s.Enum {
		if word := fmt.Sprint(w); s.Later[word] == "" {
			s.words = append(s.words, word)
		}
	}
	s.min, _ = api.ParseDuration(s.MinSpan)
	s.max, _ = api.ParseDuration(s.MaxSpan)
	s.kind = s.kindOf()
	return s
}

func (s *schema) secret() bool { return s.kind == kSecret || s.kind == kHeader }

func (s *schema) kindOf() kind {
	switch {
	case s.OneOf != nil:
		return kEither
	case s.Entries != nil:
		return kTexts
	case s.Enum != nil:
		return kWord
	}
	switch format := kind(s.Format); format {
	case kSpan, kInstant, kMoment, kSecret, kHeader, kSize:
		return format
	}
	return cmp.Or(kind(s.Type), kObject) // the type of a component that joins others is in its parts
}

// get is a field of an object, nil if it has none of the name.
func (s *schema) get(name string) *schema {
	for _, p := range s.Properties {
		if p.name == name {
			return p.schema
		}
	}
	return nil
}

// fields returns the schema of the object in a value that is an object or a list of objects.
func (s *schema) fields() *schema {
	if s.kind == kEither {
		return s.OneOf[0]
	}
	return s
}

// allowed describes the allowed values.
func (s *schema) allowed() core.Text {
	switch s.kind {
	case kInt:
		if s.Minimum == s.Maximum {
			return core.Say("expected the number %d, without quotes", s.Minimum)
		}
		return core.Say("allowed values: whole numbers from %d to %d", s.Minimum, s.Maximum)
	case kBool:
		return core.Say("allowed values: true and false")
	case kSpan:
		return core.Say("allowed values: %s to %s in whole seconds, such as 10s, 5m or 2h", FormatDuration(s.min), FormatDuration(s.max))
	case kInstant:
		return core.Say("expected a time in whole seconds, such as 2027-01-01T00:00:00Z or 2027-01-01T01:00:00+01:00")
	case kMoment:
		return core.Say("expected a date such as 2026-12-01, or a time such as 2026-12-01T09:00:00+01:00")
	case kWord:
		return core.Say("allowed values: %s", strings.Join(s.words, ", "))
	case kSecret:
		return core.Say("allowed values: %s", references)
	case kHeader:
		return core.Say("expected a text, or %s", references)
	case kSize:
		return core.Say("allowed values: %s to %s, such as 64KB", s.MinSpan, s.MaxSpan)
	case kTexts:
		return core.Say("expected a map such as %s", "{team: finance}")
	case kList:
		switch s.Items.kind {
		case kInt:
			return core.Say("expected a list such as [%s]", "200, 202")
		case kWord:
			return core.Say("expected a list such as [%s]", strings.Join(s.Items.words, ", "))
		case kObject:
			return core.Say("expected a list such as [%s]", "{…}")
		}
		return core.Say("expected a list such as [%s]", "a, b")
	case kObject:
		if s == component("Manifest") {
			return core.Say("a manifest must be a map that starts with version: 1")
		}
		return core.Say("expected a map; allowed fields: %s", s.listed())
	case kEither:
		return core.Say("expected a map or a list of maps; allowed fields: %s", s.fields().listed())
	}
	return core.Say("expected a text")
}

// names returns the names of the fields of an object.
func (s *schema) names() []string {
	names := make([]string, len(s.Properties))
	for i, p := range s.Properties {
		names[i] = p.name
	}
	return names
}

func (s *schema) listed() string { return strings.Join(s.names(), ", ") }

// unknown returns the message for a field that an object does not have.
func (s *schema) unknown(name string) core.Text {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	msg := core.Say("%s has no field %q", core.Phrase(s.Title), name)
	if here := core.XXLEquivalent(name); here.Code() != "" {
		return core.Say("%s%s", msg, here)
	}
	names := slices.Sorted(maps.Keys(s.Later))
	for i, p := range s.Properties {
		if p.fields().get(name) != nil { // written one level too high
			return core.Say("%s; did you mean %s.%s?", msg, p.name, name)
		}
		names = slices.Insert(names, i, p.name)
	}
	best, bestAt := "", 1<<30
	for _, n := range names {
		if d := Distance(fold(name), fold(n)); d < bestAt && d <= max(1, len(n)/3) {
			best, bestAt = n, d
		}
	}
	if best != "" {
		return core.Say("%s; did you mean %s?", msg, best)
	}
	return core.Say("%s; allowed fields: %s", msg, s.listed())
}

// fold maps spellings such as time_zone and Time-Zone to one form.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
}

// Distance returns the number of letters to change, add, remove, or swap with a neighbor to turn a into b.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

type props = map[string]any

// Schema returns the JSON Schema (draft 2020-12) of a manifest. The schema rejects fields of later versions, with the
// reason.
func Schema() []byte {
	defs := props{}
	s := component("Manifest").fieldsJSON(defs)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/tickring/tickring/manifest.schema.json"
	s["title"] = "tickring manifest"
	s["description"] = "Manifest of tickring apply."
	s["$defs"] = defs
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("manifest: schema of plain values: " + err.Error())
	}
	return append(b, '\n')
}

func (s *schema) fieldsJSON(defs props) props {
	fields := props{}
	for _, p := range s.Properties {
		fields[p.name] = p.json(defs)
	}
	for name, why := range s.Later {
		fields[name] = props{"not": props{}, "description": "Not yet: " + why + "."}
	}
	out := props{"type": "object", "properties": fields, "additionalProperties": false}
	if len(s.Required) > 0 {
		out["required"] = s.Required
	}
	var one []any
	for _, name := range s.One {
		one = append(one, props{"required": []string{name}})
	}
	if one != nil {
		out["oneOf"] = one
	}
	return out
}

// json returns the JSON Schema of a value. It puts the schema of an object into defs under its name, and refers to it.
func (s *schema) json(defs props) props {
	out := props{"type": s.Type}
	set := func(key string, value, none any) {
		if value != none {
			out[key] = value
		}
	}
	switch s.kind {
	case kText:
		set("maxLength", s.MaxLength, 0)
	case kInt:
		out["minimum"], out["maximum"] = s.Minimum, s.Maximum
	case kSpan:
		out["pattern"], out["minLength"] = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", 2
		out["$comment"] = "whole seconds from " + FormatDuration(s.min) + " to " + FormatDuration(s.max)
	case kInstant:
		out["format"] = "date-time"
	case kMoment:
		out["anyOf"] = []any{props{"format": "date"}, props{"format": "date-time"}}
	case kWord:
		out["enum"] = s.words
	case kSize:
		out["pattern"], out["$comment"] = "^[0-9]+(B|KB|MB)$", "from "+s.MinSpan+" to "+s.MaxSpan
	case kSecret, kHeader:
		out = props{"oneOf": []any{props{"type": "string"}, component("ManifestSecret").json(defs)}}
	case kTexts:
		out["additionalProperties"], out["maxProperties"] = s.Entries.json(defs), s.MaxEntries
	case kList:
		out["items"], out["maxItems"] = s.Items.json(defs), s.MaxItems
		set("minItems", s.MinItems, 0)
	case kObject:
		name := s.Title[strings.IndexByte(s.Title, ' ')+1:]
		if _, ok := defs[name]; !ok {
			defs[name] = s.fieldsJSON(defs)
		}
		out = props{"$ref": "#/$defs/" + name}
	case kEither:
		out = props{"oneOf": []any{s.OneOf[0].json(defs), s.OneOf[1].json(defs)}}
	}
	set("description", s.Description, "")
	if s.Default != nil {
		out["default"] = s.Default
	}
	return out
}
