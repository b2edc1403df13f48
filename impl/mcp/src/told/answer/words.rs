//! The words of answers that are not the tool's own, in the languages that are shipped.

use std::borrow::Cow;

use serde_json::json;
use settled::protocol::Key;
use settled_observers::Given;

use crate::config::{Language, Messages, Text};

/// What a text can speak of.
#[derive(Clone, Debug)]
pub(crate) struct About<'a> {
    /// The tool.
    pub(crate) tool: &'a str,
    /// The key's last part.
    pub(crate) id: &'a str,
    /// The whole key.
    pub(crate) address: Cow<'a, str>,
    /// The command with which a person can look at it.
    pub(crate) command: Cow<'a, str>,
}

impl<'a> About<'a> {
    /// Speaks of this operation.
    pub(crate) fn operation(key: &'a Key, command: String) -> About<'a> {
        About { tool: key.tool(), id: key.id(), address: key.to_string().into(), command: command.into() }
    }

    /// Speaks of an address that names none.
    pub(crate) fn address(address: &'a str) -> About<'a> {
        About { tool: "", id: "", address: address.into(), command: "".into() }
    }
}

impl Messages {
    /// A text, filled in.
    pub(crate) fn text(&self, text: Text, about: &About<'_>) -> String {
        let own = self.texts.get(&text).and_then(|template| {
            let About { tool, id, address, command } = about;
            let values = json!({ "tool": tool, "key": id, "address": address, "command": command });
            // What may stand in it was checked when it was read.
            template.text(&Given { key: "", attempt: 0, scope: None, arguments: &values.to_string() }).ok()
        });
        own.unwrap_or_else(|| match self.language {
            Language::English => english(text, about),
            Language::Japanese => japanese(text, about),
        })
    }

    /// Two texts, one after the other.
    pub(crate) fn join(&self, one: &str, other: &str) -> String {
        match self.language {
            Language::English => format!("{one} {other}"),
            Language::Japanese => format!("{one}{other}"),
        }
    }
}

fn english(text: Text, about: &About<'_>) -> String {
    let About { tool, address, command, .. } = about;
    match text {
        Text::Replayed => "This is the recorded answer of an earlier, equal call; nothing was sent again.".to_owned(),
        Text::Happened => "It happened: a person has found out.".to_owned(),
        Text::Failed => "This call did not happen and will not happen any more.".to_owned(),
        Text::Unknown => format!(
            "It is not known whether this call of {tool} happened. Do not repeat it: it will not be sent again. A person can \
             look with `{command}`, which says how to decide."
        ),
        Text::UnknownPending => format!(
            "It is not known whether this call of {tool} happened. Do not repeat it under another key or with other \
             arguments: that is being found out. To be told, ask again later with the same arguments; that does not send it \
             again unless it is certain that it did not happen. A person can look with `{command}`, which says how to decide."
        ),
        Text::UnknownError => format!(
            "This is the error of the earlier call; an error can come after the effect. If every error of this tool means \
             that nothing happened, declare `errors = \"final\"` under [tools.{tool}] in settled.toml."
        ),
        Text::InProgress => {
            "This call is being carried out. It is not sent again: ask again later with the same arguments \
                             to be told what came of it."
                .to_owned()
        }
        Text::Conflict => {
            "nothing was sent: this idempotency key was used with other arguments; use a new key for another \
                           operation"
                .to_owned()
        }
        Text::ConflictNamed => format!(
            "nothing was sent: an earlier call of {tool} is the same operation by the arguments that identify one, but its \
             other arguments differ. If this is that operation, repeat the arguments of the earlier call exactly; if it is \
             another one, the arguments that identify it must differ"
        ),
        Text::Expired => {
            "nothing was sent: a call with this idempotency key has ended, and its answer is no longer kept, so \
                          it can't be told; use a new key for another operation"
                .to_owned()
        }
        Text::AskStatus => format!(
            "To be told later without another call of {tool}, call `settled_status` with `operation` set to `{address}`."
        ),
        Text::Observed => "This call took effect, but its own answer was lost.".to_owned(),
        Text::StatusDone => format!("This call of {tool} happened. Do not repeat it. Its recorded answer follows."),
        Text::StatusPending => format!(
            "It is not known yet whether this call of {tool} happened: that is being found out. Do not repeat it; ask again \
             later."
        ),
        Text::StatusInProgress => {
            format!("This call of {tool} is being carried out. Do not repeat it; ask again later.")
        }
        Text::StatusInput => {
            format!("This call of {tool} has not happened: the tool asked for input first, and no more came.")
        }
        Text::StatusExpired => format!("This call of {tool} has ended, and its answer is no longer kept."),
        Text::StatusNotKnown => {
            "No operation with this address is known here. It may have been forgotten since, so this does \
                                 not mean that it did not happen."
                .to_owned()
        }
    }
}

fn japanese(text: Text, about: &About<'_>) -> String {
    let About { tool, address, command, .. } = about;
    match text {
        Text::Replayed => {
            "これは、以前の同じ呼び出しについて記録された応答です。今回は何も送信していません。".to_owned()
        }
        Text::Happened => "この呼び出しは実行されています。担当者が確認しました。".to_owned(),
        Text::Failed => "この呼び出しは実行されておらず、今後実行されることもありません。".to_owned(),
        Text::Unknown => format!(
            "{tool} のこの呼び出しが実行されたかどうかは不明です。再実行しないでください。同じ呼び出しが再び送信されることは\
             ありません。担当者は `{command}` で、状況と判断の手順を確認できます。"
        ),
        Text::UnknownPending => format!(
            "{tool} のこの呼び出しが実行されたかどうかは、現在確認中です。別のキーや別の引数で呼び出し直さないでください。\
             結果を知るには、しばらく待ってから同じ引数でもう一度呼び出してください。実行されていないことが確実になった場合を\
             除き、再び送信されることはありません。担当者は `{command}` で、状況と判断の手順を確認できます。"
        ),
        Text::UnknownError => format!(
            "これは以前の呼び出しが返したエラーです。処理が実行された後にエラーが返されることもあります。このツールのエラーが\
             常に「何も実行されていない」ことを意味する場合は、settled.toml の [tools.{tool}] に `errors = \"final\"` と\
             記述してください。"
        ),
        Text::InProgress => {
            "この呼び出しは現在実行中です。同じ呼び出しが再び送信されることはありません。結果を知るには、しばらく\
                             待ってから同じ引数でもう一度呼び出してください。"
                .to_owned()
        }
        Text::Conflict => {
            "何も送信していません。この冪等キーは、すでに異なる引数の呼び出しに使われています。別の操作には新しい\
                           キーを使ってください。"
                .to_owned()
        }
        Text::ConflictNamed => format!(
            "何も送信していません。操作を識別する引数の値が同じで、ほかの引数が異なる {tool} の呼び出しが、すでに行われています。\
             同じ操作であれば、以前とまったく同じ引数で呼び出してください。別の操作であれば、操作を識別する引数の値を変えて\
             ください。"
        ),
        Text::Expired => {
            "何も送信していません。この冪等キーの呼び出しはすでに終了しており、応答の保存期間を過ぎているため、結果を\
                          お伝えできません。別の操作には新しいキーを使ってください。"
                .to_owned()
        }
        Text::AskStatus => format!(
            "{tool} をもう一度呼び出さずに状況を知るには、`operation` に `{address}` を指定して `settled_status` を呼び出して\
             ください。"
        ),
        Text::Observed => "この呼び出しは実行されましたが、ツール自身の応答は失われました。".to_owned(),
        Text::StatusDone => {
            format!("{tool} のこの呼び出しは実行済みです。再実行しないでください。記録された応答は次のとおりです。")
        }
        Text::StatusPending => format!(
            "{tool} のこの呼び出しが実行されたかどうかは、現在確認中です。再実行せず、しばらく待ってからもう一度状況を確認して\
             ください。"
        ),
        Text::StatusInProgress => format!(
            "{tool} のこの呼び出しは現在実行中です。再実行せず、しばらく待ってからもう一度状況を確認してください。"
        ),
        Text::StatusInput => format!(
            "{tool} のこの呼び出しはまだ実行されていません。ツールが追加の入力を求めましたが、その入力が届いていません。"
        ),
        Text::StatusExpired => {
            format!("{tool} のこの呼び出しは終了しており、応答の保存期間を過ぎています。")
        }
        Text::StatusNotKnown => {
            "このアドレスの操作は記録されていません。保存期間を過ぎて削除された可能性もあるため、実行されなかった\
                                 ことを意味するものではありません。"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn messages(lines: &str) -> std::sync::Arc<Messages> {
        Config::parse("settled.toml".as_ref(), &format!("[messages]\n{lines}")).unwrap().messages
    }

    fn told(messages: &Messages, text: Text) -> String {
        let key = Key::new("shop", "charge", "key:1").unwrap();
        messages.text(text, &About::operation(&key, "settled log show 'x'".to_owned()))
    }

    #[test]
    fn every_text_is_there_in_every_language() {
        for text in Text::ALL {
            let (english, japanese) = (told(&messages(""), text), told(&messages("language = 'ja'"), text));
            assert!(english.is_ascii() && !english.contains("  "), "{english}");
            assert!(japanese.ends_with('。') && !japanese.contains("。 ") && !japanese.contains('\n'), "{japanese}");
            // Continued lines of the source must not leave spaces between Japanese characters.
            let chars: Vec<char> = japanese.chars().collect();
            let odd =
                chars.windows(3).any(|three| three[1] == ' ' && three.iter().all(|c| *c == ' ' || *c > '\u{3000}'));
            assert!(!odd, "{japanese}");
        }
    }

    #[test]
    fn an_unknown_forbids_repeating_and_says_what_to_do_in_every_language() {
        let english = told(&messages(""), Text::Unknown);
        assert!(english.contains("Do not repeat it") && english.contains("`settled log show 'x'`"), "{english}");
        let japanese = told(&messages("language = 'ja'"), Text::Unknown);
        assert!(
            japanese.contains("再実行しないでください") && japanese.contains("`settled log show 'x'`"),
            "{japanese}"
        );
    }

    #[test]
    fn the_users_own_words() {
        let messages = messages(
            "language = 'ja'\n[messages.texts]\nunknown = '{tool}? {{{address}}} {key}: {command}'\nfailed = 'Nein.'",
        );
        assert_eq!(told(&messages, Text::Unknown), "charge? {shop/charge/key:1} key:1: settled log show 'x'");
        assert_eq!(told(&messages, Text::Failed), "Nein.");
        assert!(told(&messages, Text::InProgress).contains("実行中"));
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let problem = |lines: &str| {
            let text = format!("[messages]\n{lines}");
            Config::parse("settled.toml".as_ref(), &text).unwrap_err().to_string()
        };
        for (lines, parts) in [
            ("language = 'de'", vec!["settled.toml:2", "`messages.language`", "`en` or `ja`"]),
            (
                "[messages.texts]\nunknwon = 'x'",
                vec!["settled.toml:3", "`messages.texts.unknwon`", "`unknown_pending`"],
            ),
            (
                "[messages.texts]\nunknown = '{tol}'",
                vec!["`messages.texts.unknown`", "`{tol}`", "`{tool}`", "`{command}`"],
            ),
            ("[messages.texts]\nunknown = '{tool'", vec!["`{` without its partner"]),
            ("[messages.texts]\nunknown = ' '", vec!["is empty"]),
        ] {
            let problem = problem(lines);
            assert!(parts.iter().all(|part| problem.contains(part)), "{problem}");
        }
    }
}
