package awsengine

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
)

// writer builds one PartiQL update. Names stand in double quotes, for many of
// ours are reserved words; values are always parameters.
type writer struct {
	table string
	does  strings.Builder
	conds strings.Builder
	args  []types.AttributeValue // of does
	tests []types.AttributeValue // of conds
}

func (w *writer) set(name string, v types.AttributeValue) {
	w.does.WriteString(` SET "` + name + `" = ?`)
	w.args = append(w.args, v)
}

func (w *writer) remove(name string) { w.does.WriteString(` REMOVE "` + name + `"`) }

// where adds a condition, with a parameter for each of its question marks.
func (w *writer) where(cond string, args ...types.AttributeValue) {
	if w.conds.Len() > 0 {
		w.conds.WriteString(" AND ")
	}
	w.conds.WriteString(cond)
	w.tests = append(w.tests, args...)
}

func (w *writer) statement(key string) statement {
	return statement{table: w.table, key: key, text: `UPDATE "` + w.table + `"` + w.does.String() + " WHERE " + w.conds.String(), args: append(w.args, w.tests...)}
}

// update builds the expressions of one UpdateItem, as writer does a statement.
type update struct {
	sets, removes, conds []string
	names                map[string]string
	values               item
}

func newUpdate() *update { return &update{names: map[string]string{}, values: item{}} }

func (u *update) set(name string, v types.AttributeValue) {
	u.names["#"+name], u.values[":"+name] = name, v
	u.sets = append(u.sets, "#"+name+" = :"+name)
}

func (u *update) remove(name string) {
	u.names["#"+name] = name
	u.removes = append(u.removes, "#"+name)
}

func (u *update) equals(name string, v types.AttributeValue) {
	u.names["#"+name], u.values[":is"+name] = name, v
	u.conds = append(u.conds, "#"+name+" = :is"+name)
}

func (u *update) missing(name string) {
	u.names["#"+name] = name
	u.conds = append(u.conds, "attribute_not_exists(#"+name+")")
}

func (u *update) open() {
	u.names["#state"] = "state"
	var list []string
	for _, s := range core.States {
		if s.Open() {
			u.values[":"+string(s)] = text(string(s))
			list = append(list, ":"+string(s))
		}
	}
	u.conds = append(u.conds, "#state IN ("+strings.Join(list, ", ")+")")
}

func (u *update) does() *string {
	does := "SET " + strings.Join(u.sets, ", ")
	if len(u.removes) > 0 {
		does += " REMOVE " + strings.Join(u.removes, ", ")
	}
	return &does
}

func (u *update) conditions() *string {
	all := strings.Join(u.conds, " AND ")
	return &all
}

// insert is a put on condition that there is no such item.
func insert(table, key string, it item, names []string) statement {
	var b strings.Builder
	args := make([]types.AttributeValue, 0, len(it))
	b.WriteString(`INSERT INTO "` + table + `" VALUE {`)
	for _, n := range names {
		v, ok := it[n]
		if !ok {
			continue
		}
		if len(args) > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + n + "':?")
		args = append(args, v)
	}
	b.WriteByte('}')
	return statement{table: table, key: key, text: b.String(), args: args}
}
