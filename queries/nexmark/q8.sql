SELECT DISTINCT person.id, name, person.date_time // 10000 * 10000 AS window_start
FROM person JOIN auction ON seller = person.id AND auction.date_time // 10000 = person.date_time // 10000
