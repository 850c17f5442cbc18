#compdef tickring
# Completion of tickring for zsh. In ~/.zshrc, behind compinit: eval "$(tickring completion zsh)"
_tickring() {
	local line word
	local -a lines list
	lines=("${(@f)$(tickring complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ $lines[1] == : ]]; then # a file is meant
		[[ $words[CURRENT] == --*=* ]] && compset -P '*='
		_files
		return
	fi
	for line in $lines; do
		[[ -n $line ]] || continue
		word="${line%%$'\t'*}"
		list+=("${word//:/\\:}${${line#$word}/$'\t'/:}")
	done
	_describe tickring list
}
if [[ $funcstack[1] == _tickring ]]; then
	_tickring "$@"
else
	compdef _tickring tickring
fi
