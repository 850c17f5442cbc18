package core

import (
	"reflect"
	"testing"
)

// A field that Equal ignores could not be changed by the owner of a job.
func TestEqualKnowsEachField(t *testing.T) {
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int32, reflect.Int64:
			v.SetInt(7)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("x"))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			change(v.Elem().Field(0))
		case reflect.Struct:
			change(v.Field(0))
		default:
			t.Fatalf("a field of kind %s", v.Kind())
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Def]()) {
		if f.Name == "Children" || f.Name == "Created" { // not part of the owner's definition
			continue
		}
		var a, b Def
		change(reflect.ValueOf(&b).Elem().FieldByIndex(f.Index))
		if a.Equal(b) {
			t.Errorf("%s is not compared", f.Name)
		}
	}
}
