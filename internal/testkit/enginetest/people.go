package enginetest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// anAccount is one with all that it can have.
var anAccount = access.Account{Name: "lina@example.com", Disabled: true, Password: "$argon2id$x", MustChange: true,
	Issuer: "https://id.example.com", Subject: "0815",
	Grants: []access.Grant{{App: "shop", Role: access.Editor, Rights: []access.Right{access.Scripts}}},
	Tokens: []access.Token{{Name: "ci", Hash: []byte{0, 255, 1}, Grants: []access.Grant{{Role: access.Viewer}}, Created: base,
		End: base.Add(time.Hour)}},
	Sessions: []access.Session{{ID: "s1", Hash: []byte("h"), Created: base, Seen: base.Add(time.Minute), From: "::1", Agent: "测试",
		ByPassword: true}},
	Views:    []access.View{{Name: "Failing now", Page: "runs", Query: "failed=true", By: "ann", Shared: true}},
	Failures: access.Failures{Count: 3, At: base}, FailuresKnown: access.Failures{Count: 2, At: base}, Language: core.Chinese,
	Zone: "Asia/Shanghai", LastSeen: base, Created: base, Rev: 5, Edited: 5}

func accounts(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	read := func(name string) *access.Account {
		t.Helper()
		a, found, err := e.People.Account(ctx, name)
		ok(t, err)
		if !found {
			return nil
		}
		return &a
	}
	name := anAccount.Name
	same(t, "no person", read(name), nil)
	c := core.Change{ID: 5, At: base, By: "ann", Verb: "created", Name: core.OfPerson + name, New: `{"a":1}`}
	refused(t, e.People.PutAccount(ctx, 4, anAccount, &c))
	ok(t, e.People.PutAccount(ctx, 0, anAccount, &c))
	refused(t, e.People.PutAccount(ctx, 0, anAccount, &c))
	same(t, "person", read(name), &anAccount)

	b := anAccount
	b.Rev, b.Sessions = 6, nil
	refused(t, e.People.PutAccount(ctx, 6, b, nil))
	same(t, "unchanged person", read(name), &anAccount)
	ok(t, e.People.PutAccount(ctx, 5, b, nil)) // without a record
	same(t, "changed person", read(name), &b)

	other := access.Account{Name: "ann", Rev: 1}
	ok(t, e.People.PutAccount(ctx, 0, other, nil))
	list, err := e.People.ListAccounts(ctx)
	ok(t, err)
	if d := cmp.Diff([]access.Account{other, b}, list, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}

	del := core.Change{ID: 7, At: base, Verb: "deleted", Name: core.OfPerson + name, Old: `{"a":1}`}
	refused(t, e.People.DeleteAccount(ctx, 5, name, del))
	refused(t, e.People.DeleteAccount(ctx, 6, "none", del))
	ok(t, e.People.DeleteAccount(ctx, 6, name, del))
	refused(t, e.People.DeleteAccount(ctx, 6, name, del))
	same(t, "deleted person", read(name), nil)
	same(t, "another person", read("ann"), &other)
	changes, err := e.Manage.Changes(ctx, "", 0, math.MaxInt64, 10)
	ok(t, err)
	if len(changes) != 2 || changes[0].ID != 7 || changes[1].Name != core.OfPerson+name || changes[1].By != "ann" {
		t.Fatalf("changes: %+v", changes)
	}
}
