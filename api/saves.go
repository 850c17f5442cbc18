package api

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/manage"
)

// maySave returns an error unless the caller may save a job as a spec describes. A field with a permission of its own
// needs it only if its value differs from the stored one. So a caller without the script permission can change the
// rest of a job with a script.
func (s *server) maySave(r *http.Request, spec *manage.JobSpec) error {
	who := callerOf(r).Who
	if who.Kind == access.Code || who.May(access.Administer, "") == nil {
		return nil
	}
	app := spec.Def.App
	if err := core.CheckAppName("app", app); err != nil {
		return err
	}
	if err := who.May(access.Edit, app); err != nil {
		return err
	}
	var old core.Def
	if core.CheckName("name", spec.Def.Name) == nil {
		switch j, err := s.m.Job(r.Context(), app+"/"+spec.Def.Name); {
		case err == nil:
			old = j.Def
		case core.CodeOf(err) != core.CodeNotFound:
			return err
		}
	}
	if n := spec.Def.Script; n != nil && (old.Script == nil || n.Hash != old.Script.Hash || n.Kind != old.Script.Kind) {
		if err := who.May(access.Script, app); err != nil {
			return err
		}
	}
	if n := spec.Def.Command.Normal(); n != nil && !n.Equal(old.Command.Shown()) {
		// It runs on the server itself and can read the server's data.
		if err := who.May(access.Administer, ""); err != nil {
			return err
		}
	}
	if err := mayCall(who, app, spec.Def.Call, old.Call); err != nil {
		return err
	}
	for _, p := range spec.Def.After { // the job gets data from the parent's runs, and the parent cannot be deleted while it exists
		if of, _, _ := strings.Cut(p.Job, "/"); of != app && !slices.ContainsFunc(old.After, func(o core.Parent) bool { return o.Job == p.Job }) {
			if err := who.May(access.Edit, of); err != nil {
				return err
			}
		}
	}
	return mayShare(who, spec.Def.Overlap.Group, old.Overlap.Group)
}

// maySaveApp is maySave for an app.
func (s *server) maySaveApp(r *http.Request, spec *manage.AppSpec) error {
	who := callerOf(r).Who
	if who.May(access.Administer, "") == nil {
		return nil
	}
	if err := core.CheckAppName("name", spec.Name); err != nil {
		return err
	}
	if err := who.May(access.Edit, spec.Name); err != nil {
		return err
	}
	old, _, err := s.m.FindApp(r.Context(), spec.Name)
	if err != nil {
		return err
	}
	if spec.Token != nil {
		if err := who.May(access.Secret, spec.Name); err != nil {
			return err
		}
	}
	allow := make([]string, len(old.Allow))
	for i, p := range old.Allow {
		allow[i] = p.String()
	}
	if !slices.Equal(spec.Executors, old.Executors) || !slices.Equal(spec.Allow, allow) {
		if err := who.May(access.Address, spec.Name); err != nil {
			return err
		}
	}
	if err := mayCall(who, spec.Name, spec.Call, old.Call); err != nil {
		return err
	}
	return mayShare(who, spec.Overlap.Group, old.Overlap.Group)
}

// mayCall checks the permissions for a call: for new secrets, and for the URL to which a secret is sent to get a
// token.
func mayCall(who access.Who, app string, call, old *core.Call) error {
	if err := mayGive(who, app, call); err != nil {
		return err
	}
	if drops(call, old) {
		if err := who.May(access.Secret, app); err != nil {
			return err
		}
	}
	if call == nil {
		return nil
	}
	if u := call.Auth.OAuth.TokenURL; u != "" && (old == nil || u != old.Auth.OAuth.TokenURL) {
		return who.May(access.Address, app)
	}
	return nil
}

// mayGive checks the permission for secrets that a call has in clear text. A dry run needs it too: its result reveals
// whether a guessed secret is the stored one.
func mayGive(who access.Who, app string, call *core.Call) error {
	if call == nil || reflect.DeepEqual(call, call.Shown()) {
		return nil
	}
	return who.May(access.Secret, app)
}

// drops reports whether a call leaves out a secret of the old one.
func drops(call, old *core.Call) bool {
	if old == nil {
		return false
	}
	if call == nil {
		call = &core.Call{}
	}
	return old.Auth != core.Auth{} && call.Auth == core.Auth{} || slices.ContainsFunc(old.Hidden, func(name string) bool {
		_, kept := call.Headers[name]
		return !kept
	})
}

// mayDeleteApp needs the permission for secrets if the app has any, because the app could be created again without
// them.
func (s *server) mayDeleteApp(r *http.Request, name string) error {
	old, _, err := s.m.FindApp(r.Context(), name)
	if err != nil || old.Token == "" && !drops(nil, old.Call) {
		return err
	}
	return may(r, access.Secret, name)
}

// mayTry checks the permission for secrets in a dry run.
func (a *applying) mayTry(app string, call *core.Call, other bool) error {
	if other {
		if err := may(a.r, access.Secret, app); err != nil {
			return err
		}
	}
	return mayGive(callerOf(a.r).Who, app, call)
}

// mayShare checks the permission for a shared limit, which jobs of other apps can share.
func mayShare(who access.Who, group, old string) error {
	if group == "" || group == old {
		return nil
	}
	return who.May(access.Edit, "")
}

// mayApply checks the permissions for changes to anything but apps and jobs.
func mayApply(r *http.Request, body *client.ApplyRequest) error {
	edit := unless(body.DryRun, access.Edit)
	if callerOf(r).Kind == access.ReadToken {
		return may(r, edit, "")
	}
	if body.Prune || body.Notify != nil {
		if err := may(r, edit, ""); err != nil {
			return err
		}
	}
	if len(body.Channels) > 0 || body.Prune { // pruned apps may have secrets
		return may(r, unless(body.DryRun, access.Secret), "")
	}
	return nil
}

// permit rejects each item that the caller may not save, or may not see if dryRun is set.
func (a *applying) permit(dryRun bool) error {
	for i, c := range a.channels {
		if dryRun && !c.Channel.Equal(c.Channel.Shown()) && a.out.Channels[i].Error == nil {
			if err := may(a.r, access.Secret, ""); err != nil {
				a.refuseChannel(i, err)
			}
		}
	}
	for i := range a.apps {
		err := may(a.r, access.See, a.apps[i].Name)
		if err == nil && dryRun {
			err = a.mayTry(a.apps[i].Name, a.apps[i].Call, a.apps[i].Token != nil)
		} else if err == nil {
			err = a.s.maySaveApp(a.r, &a.apps[i])
		}
		if err != nil && a.out.Apps[i].Error == nil {
			a.refuseApp(i, err)
		}
	}
	for i := range a.jobs {
		err := may(a.r, access.See, a.jobs[i].Def.App)
		if err == nil && dryRun {
			def := &a.jobs[i].Def
			err = a.mayTry(def.App, def.Call, !def.Command.Normal().Equal(def.Command.Normal().Shown()))
		} else if err == nil {
			err = a.s.maySave(a.r, &a.jobs[i])
		}
		for _, p := range a.jobs[i].Def.After { // the answer reveals whether the parent exists
			if of, _, _ := strings.Cut(p.Job, "/"); err == nil {
				err = may(a.r, access.See, of)
			}
		}
		if err != nil && a.out.Jobs[i].Error == nil {
			a.refuseJob(i, err)
		}
	}
	return a.r.Context().Err()
}
