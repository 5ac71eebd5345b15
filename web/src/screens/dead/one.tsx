// Dead letters one by one, with a search.
import type { JSX } from "preact";
import { type Page, get, q } from "../../lib/api";
import { short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import type { TaskRow } from "../../lib/types";
import { act } from "../../ui/act";
import { Pager } from "../../ui/pager";
import { Button, Empty, Shown, Text, Time, scrollable } from "../../ui/parts";
import { QueryBar } from "../../ui/query";

export function OneByOne(): JSX.Element {
  const query = param("q");
  const after = param("after");
  const loaded = useLoad(
    (signal) =>
      get<Page<TaskRow>>(`/dead-letters?limit=50&q=${q(query)}${after ? `&after=${q(after)}` : ""}`, signal),
    `dead ${query} ${after}`,
  );
  const bad = loaded.error?.body.at !== undefined ? loaded.error : undefined;
  return (
    <>
      <div class="row gap">
        <QueryBar
          value={query}
          onSearch={(text) => setParams({ q: text, after: null, by: "one" })}
          label="Search dead letters"
          error={bad}
        />
      </div>
      {!bad && (
        <Shown of={loaded}>
          {(page) => (
            <div class="wrap gap">
              {page.items.length === 0 ? (
                <Empty
                  sign="letters"
                  title="No dead letter matches"
                  act={
                    query ? (
                      <Button onClick={() => setParams({ q: null, by: "one" })}>Drop the search</Button>
                    ) : undefined
                  }
                />
              ) : (
                <div class="scroll" ref={scrollable}>
                  <table class="t">
                    <thead>
                      <tr>
                        <th>Type</th>
                        <th>Id</th>
                        <th class="n">Died</th>
                        <th class="n">Tries</th>
                        <th class="whyc">Error</th>
                        <th />
                      </tr>
                    </thead>
                    <tbody>
                      {page.items.map((task) => (
                        <tr data-row key={task.id}>
                          <td>
                            <a class="strong" href={url(`/tasks/${task.id}`)}>
                              <Text>{task.type}</Text>
                            </a>
                          </td>
                          <td class="m dim">{short(task.id)}</td>
                          <td class="n">
                            <Time at={task.finished_at} as="age" />
                          </td>
                          <td class="n">
                            {task.attempts}/{task.max_attempts}
                          </td>
                          <td class="whyc m">
                            <Text>{task.error ?? ""}</Text>
                          </td>
                          <td class="n">
                            <Button
                              small
                              right="tasks.intervene"
                              name={`Retry ${short(task.id)}`}
                              onClick={() => act("retry", { task })}
                            >
                              Retry…
                            </Button>
                          </td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              )}
              <div class="tfoot">
                <span class="sp" />
                <Pager isFirst={!after} next={page.next ? { after: page.next } : null} />
              </div>
            </div>
          )}
        </Shown>
      )}
    </>
  );
}
