package dynamo

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// writer builds one PartiQL update. Names are in double quotes, because many are reserved words; values are always
// parameters.
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
	return statement{table: w.table, key: key, text: `UPDATE "` + w.table + `"` + w.does.String() + " WHERE " + w.conds.String(),
		args: append(w.args, w.tests...)}
}

// insert is the put of a run on the condition that it does not exist.
func insert(table, key string, it item) statement {
	var b strings.Builder
	args := make([]types.AttributeValue, 0, len(it))
	b.WriteString(`INSERT INTO "` + table + `" VALUE {`)
	for _, n := range runNames {
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
