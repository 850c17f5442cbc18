package access

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
)

// Views returns the caller's own views, followed by the shared views, each sorted by name. Shared views with apps
// that the caller cannot see are left out.
func (a *Access) Views(ctx context.Context, who Who) ([]View, error) {
	if err := who.May(OwnSee, ""); err != nil {
		return nil, err
	}
	acc, err := a.account(ctx, who.Name)
	if err != nil {
		return nil, err
	}
	shared, _, err := a.find(ctx, sharedName)
	if err != nil {
		return nil, err
	}
	byName := func(x, y View) int { return strings.Compare(x.Name, y.Name) }
	slices.SortFunc(acc.Views, byName)
	slices.SortFunc(shared.Views, byName)
	for _, v := range shared.Views {
		if v.By == who.Name || !v.namesUnseen(who) {
			acc.Views = append(acc.Views, v)
		}
	}
	return acc.Views, nil
}

// namesUnseen reports whether the query of a view names an app that the caller cannot see.
func (v *View) namesUnseen(who Who) bool {
	query, err := url.ParseQuery(v.Query)
	if err != nil {
		return true
	}
	for _, ref := range slices.Concat(query["app"], query["job"]) {
		if app, _, _ := strings.Cut(ref, "/"); app != "" && !who.Sees(app) {
			return true
		}
	}
	return false
}

func countBy(views []View, name string) (n int) {
	for i := range views {
		if views[i].By == name {
			n++
		}
	}
	return n
}

// SaveView stores a view under its name. Only the author or an admin can change a shared view.
func (a *Access) SaveView(ctx context.Context, who Who, v View) error {
	if err := who.May(Own, ""); err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return err
	}
	item, most := who.Name, MaxViews
	if v.By = ""; v.Shared {
		if !who.MaySome(See) {
			return core.Errorf(core.CodeForbidden, "sharing a view requires a role for an app")
		}
		item, most, v.By = sharedName, MaxSharedViews, who.Name
	}
	_, err := a.change(ctx, item, nil, func(acc *Account) (bool, error) {
		i := slices.IndexFunc(acc.Views, func(o View) bool { return o.Name == v.Name })
		switch {
		case acc.Rev == 0 && !v.Shared:
			return false, noPerson(who.Name)
		case i >= 0 && acc.Views[i] == v:
			return false, nil
		case i >= 0 && v.Shared && acc.Views[i].By != who.Name && who.May(Administer, "") != nil:
			return false, core.Errorf(core.CodeConflict, "user %s already shares a view named %s: choose another name", acc.Views[i].By, v.Name)
		case i >= 0:
			acc.Views[i] = v
			return true, nil
		case len(acc.Views) >= most:
			return false, core.Errorf(core.CodeTooLarge, "the maximum of %d views is reached: delete one first", len(acc.Views))
		case v.Shared && countBy(acc.Views, who.Name) >= MaxViews:
			return false, core.Errorf(core.CodeTooLarge, "you share %d views, the maximum: delete one first", MaxViews)
		}
		acc.Views = append(acc.Views, v)
		return true, nil
	})
	return err
}

// DeleteView deletes one of the caller's own views or, if shared is true, a shared view. Only the author or an admin
// can delete a shared view.
func (a *Access) DeleteView(ctx context.Context, who Who, name string, shared bool) error {
	if err := who.May(Own, ""); err != nil {
		return err
	}
	item := who.Name
	if shared {
		item = sharedName
	}
	tried := false
	_, err := a.change(ctx, item, nil, func(acc *Account) (bool, error) {
		i := slices.IndexFunc(acc.Views, func(o View) bool { return o.Name == name })
		switch {
		case i < 0 && tried:
			return false, nil
		case i < 0:
			return false, core.Errorf(core.CodeNotFound, "view %s does not exist", name)
		case shared && acc.Views[i].By != who.Name && who.May(Administer, "") != nil:
			return false, core.Errorf(core.CodeForbidden, "the view %s is shared by %s", name, acc.Views[i].By)
		}
		tried = true
		acc.Views = slices.Delete(acc.Views, i, i+1)
		return true, nil
	})
	return err
}
