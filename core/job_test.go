package core

import (
	"reflect"
	"testing"
)

// A definition that differs in any field is another: what Equal forgot could not be
// changed by its owner.
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
		if f.Name == "Children" || f.Name == "Created" { // not what its owner wrote
			continue
		}
		var a, b Def
		change(reflect.ValueOf(&b).Elem().FieldByIndex(f.Index))
		if a.Equal(b) {
			t.Errorf("%s is not compared", f.Name)
		}
	}
}
