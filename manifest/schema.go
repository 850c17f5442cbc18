package manifest

import (
	"encoding/json"
	"time"
)

type props = map[string]any

// Schema is the JSON Schema (draft 2020-12) of a manifest. What comes later is
// in it as forbidden, with the reason.
func Schema() []byte {
	defs := props{}
	s := fileObject.schema(defs)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/tickring/tickring/manifest.schema.json"
	s["title"] = "tickring manifest"
	s["description"] = "What tickring apply takes."
	s["$defs"] = defs
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("manifest: schema of plain values: " + err.Error())
	}
	return append(b, '\n')
}

func (o *object) schema(defs props) props {
	fields, required := props{}, []string{}
	for _, f := range o.fields {
		fields[f.name] = f.schema(defs)
		if f.required {
			required = append(required, f.name)
		}
	}
	s := props{"type": "object", "properties": fields, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// ref is the schema of an object by its name.
func (o *object) ref(defs props) props {
	if _, ok := defs[o.def]; !ok {
		defs[o.def] = nil // begun
		defs[o.def] = o.schema(defs)
	}
	return props{"$ref": "#/$defs/" + o.def}
}

func (f *field) schema(defs props) props {
	if f.refused() {
		return props{"not": props{}, "description": "Not yet: " + f.later + "."}
	}
	var s props
	switch f.kind {
	case kText:
		s = props{"type": "string"}
		if f.max > 0 {
			s["maxLength"] = f.max
		}
	case kInt:
		s = props{"type": "integer", "minimum": f.min, "maximum": f.max}
	case kBool:
		s = props{"type": "boolean"}
		if f.later != "" {
			s["const"] = false
		}
	case kDuration:
		s = props{"type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "minLength": 2,
			"$comment": "whole seconds from " + FormatDuration(time.Duration(f.min)) + " to " + FormatDuration(time.Duration(f.max))}
	case kInstant:
		s = props{"type": "string", "format": "date-time"}
	case kMoment:
		s = props{"type": "string", "anyOf": []any{props{"format": "date"}, props{"format": "date-time"}}}
	case kWord:
		s = props{"type": "string", "enum": f.words}
	case kSecret:
		s = props{"oneOf": []any{props{"type": "string"}, f.obj.ref(defs)}}
	case kTexts:
		s = props{"type": "object", "additionalProperties": props{"type": "string"}, "maxProperties": f.max}
	case kList:
		s = props{"type": "array", "items": f.item.schema(defs), "maxItems": f.max}
		if f.min > 0 {
			s["minItems"] = f.min
		}
	case kObject:
		s = f.obj.ref(defs)
	case kOneOrList:
		s = props{"oneOf": []any{f.obj.ref(defs), props{"type": "array", "items": f.obj.ref(defs), "maxItems": f.max}}}
	case kVersion:
		s = props{"const": 1}
	}
	if f.doc != "" {
		s["description"] = f.doc
	}
	if f.def != "" {
		s["$comment"] = "left out: " + f.def
	}
	return s
}
